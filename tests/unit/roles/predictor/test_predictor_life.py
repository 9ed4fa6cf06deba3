"""The predictor reports while it joins its group, and its lag counts only what it could have read."""

from __future__ import annotations

import asyncio

from spojoin.ports.shared_state import key
from spojoin.protocol.topology import Role
from spojoin.roles.predictor import app as room
from spojoin.roles.predictor.faust_kafka import METADATA_MS, SESSION_S, make_app
from spojoin.runtime.settings import load_settings
from tests.support.frames import log_of_frames, make_query
from tests.support.runtime_world import FRAMES, TOPICS, Bench


class SlowApp:
    """A stand-in for Faust that joins when a test allows it."""

    def __init__(self) -> None:
        self.may_join = asyncio.Event()
        self.start = self.may_join.wait

    def topic(self, *_, **__) -> None:
        """No topic is needed."""

    def agent(self, *_, **__):
        return lambda follow: follow


def life_of(bench: Bench, monkeypatch) -> tuple[room.Life, SlowApp]:
    slow = SlowApp()
    monkeypatch.setattr(room, "make_app", lambda *_, **__: slow)
    monkeypatch.setattr(room, "TICK_S", 0.001)
    settings = load_settings(query_file="q.yaml")
    return room.Life(make_query(), settings, TOPICS, bench.world, "folder"), slow


def status(bench: Bench) -> dict[str, str]:
    return bench.store.get(key("q", "status", "x-0"))


async def until(found) -> None:
    async with asyncio.timeout(30):
        while not found():
            await asyncio.sleep(0.001)


def test_a_predictor_that_waits_for_its_group_reports(monkeypatch):
    """The group waits for a killed member; meanwhile the successor reports what it waits for."""
    bench = Bench(Role.PREDICTOR)
    bench.append(FRAMES, *log_of_frames())
    bench.log.trim(FRAMES, 2)

    async def play() -> None:
        life, slow = life_of(bench, monkeypatch)
        joining = asyncio.ensure_future(life.start())
        await until(lambda: status(bench))
        assert status(bench)["state"] == "waiting: the broker"
        assert status(bench)["lag"] == "3"  # the retained records, not all ever written
        first = status(bench)["wall_ms"]
        bench.clock.sleep(2)
        await until(lambda: status(bench)["wall_ms"] != first)
        slow.may_join.set()
        await joining

    asyncio.run(play())


def test_records_that_have_just_come_are_no_lag(monkeypatch):
    """The predictor fetches twice a second: in a settled flow no record waits longer than that."""
    bench = Bench(Role.PREDICTOR)
    bench.append(FRAMES, *log_of_frames())

    async def play() -> list[str]:
        life, _ = life_of(bench, monkeypatch)
        lags = []
        for position in (5, 5, 6, 6):
            bench.append(FRAMES, log_of_frames()[0])
            bench.clock.sleep(2)
            await life._report(position)
            lags.append(status(bench)["lag"])
        return lags

    assert asyncio.run(play()) == ["0", "1", "1", "2"]


def test_a_killed_predictor_does_not_delay_its_successor_for_long():
    assert make_app("g", "127.0.0.1:1", {}, 1 << 20).conf.broker_session_timeout == SESSION_S <= 10


def test_a_topic_that_was_unknown_is_looked_for_again_soon():
    assert make_app("g", "127.0.0.1:1", {}, 1 << 20).conf.consumer_metadata_max_age_ms == METADATA_MS <= 10_000
