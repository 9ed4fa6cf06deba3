"""Each process, run over memory with settings that note who reads them: it reads what its row says and no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spojoin.local.net import LOOPBACK
from spojoin.page import service as page_service
from spojoin.page.settings import PageAddress, PageSettings
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.protocol.packing import group_name, parse_packing
from spojoin.protocol.topology import PACKABLE, Role
from spojoin.roles.controller import __main__ as controller_main
from spojoin.roles.controller import kubernetes_cluster
from spojoin.roles.predictor import __main__ as predictor_main
from spojoin.roles.predictor.app import Life, PredictorService
from spojoin.runtime import service
from spojoin.runtime.__main__ import start
from spojoin.runtime.setting_readers import PAGE, READERS, SHARED, is_read, readers_of
from spojoin.runtime.settings import Settings
from tests.support.controller_world import FakeCluster

QUERY = """
name: q
streams: {trips: {schema: {distance: double, air_time: double}}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
PACKINGS = ("apart", "together", "router+sink mutable+logical-and")
TURNS, PAUSE_S = 40, 0.01


class NotedSettings(Settings):
    """Settings that note which are read once they are whole."""

    def __getattribute__(self, name: str) -> object:
        if name in type(self).model_fields:
            NOTED.add(name)
        return super().__getattribute__(name)


NOTED: set[str] = set()


class TurnsLeft(threading.Event):
    """Set after some turns."""

    def __init__(self) -> None:
        super().__init__()
        self._left = TURNS

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(PAUSE_S)


@contextmanager
def few_turns() -> Iterator[threading.Event]:
    yield TurnsLeft()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog[bytes]:
    """What all processes of a test share."""
    shared: MemoryLog[bytes] = MemoryLog(ManualClock(1_000.0))
    shared.create_topics({"in.trips": 1})
    monkeypatch.setattr(service, "KafkaLog", lambda _: shared)
    monkeypatch.setattr(shared, "close", lambda: None, raising=False)
    for module in (service, controller_main):
        monkeypatch.setattr(module, "stop_on_signals", few_turns)
    monkeypatch.setattr(kubernetes_cluster, "connect", lambda *_: FakeCluster(2))
    monkeypatch.setattr(predictor_main, "_until_signalled", some_lives)
    monkeypatch.setattr(predictor_main.os, "nice", lambda _: 0)  # for good, of this process
    monkeypatch.setattr(page_service, "_stop_on_signals", threading.Event.set)
    return shared


async def some_lives(predictor: PredictorService) -> None:
    """Lives that don't reach Kafka."""
    stop = asyncio.Event()
    ending = asyncio.get_running_loop().call_later(20 * PAUSE_S, stop.set)
    await predictor.run(stop)
    ending.cancel()


async def nothing(_: object) -> None:
    """In place of a step of a life."""


def noted(run: Callable[[NotedSettings], object], query: Path, **given: object) -> set[str]:
    """What a process reads of its settings."""
    settings = NotedSettings(query_file=query, joiners=2, joiner=0, worker=0, workers=2, **given)
    NOTED.clear()
    run(settings)
    return set(NOTED)


def page(settings: NotedSettings) -> None:
    page_service.run(PageSettings(settings, PageAddress(host=LOOPBACK, port=0)))


@pytest.mark.parametrize(("packing", "standbys"), zip(PACKINGS, (False, True, True), strict=True))
def test_a_process_reads_what_its_row_says(
    log: MemoryLog[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str, *, standbys: bool
) -> None:
    for name in ("start", "look", "stop"):  # put back at the end
        monkeypatch.setattr(Life, name, nothing)
    query, other = tmp_path / "query.yaml", tmp_path / "other.yaml"
    query.write_text(QUERY)
    other.write_text(QUERY.replace("'10'", "'20'"))
    groups = [*parse_packing(packing).groups, (Role.PREDICTOR,), (Role.CONTROLLER,)]
    for text, replaces in ((query, False), (other, True)):
        for roles in groups:
            given = {"packing": packing, "standbys": standbys, "replace": replaces, "transactions": True}
            found = noted(lambda settings, roles=roles: start(roles, settings), text, **given)
            readers = readers_of(roles)
            assert not [name for name in found if not is_read(name, readers)], group_name(roles)
            if set(roles) <= {*PACKABLE}:
                assert {"packing", "log_level", "compression"} <= found


def test_so_does_the_page(log: MemoryLog[bytes], tmp_path: Path) -> None:
    query = tmp_path / "query.yaml"
    query.write_text(QUERY)
    found = noted(page, query, redis_url="redis://127.0.0.1:1/0", bootstrap_servers="127.0.0.1:1")
    assert {"workers", "joiners"} <= found
    assert not [name for name in found if not is_read(name, [PAGE])]


def test_a_setting_that_nobody_knows_goes_to_all() -> None:
    assert is_read("frame_tuples", ["router"])
    assert not is_read("frame_tuples", ["sink"])
    assert is_read("fame_tuples", ["sink"])
    assert READERS["threads"] == (SHARED,)
    assert readers_of((Role.SINK,)) == (Role.SINK,)
    assert readers_of((Role.ROUTER, Role.SINK)) == (Role.ROUTER, Role.SINK, SHARED)
