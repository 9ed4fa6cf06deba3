"""One life after another: which errors are retried, which end a service, and with which status."""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest

from spojoin.errors import Fenced
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import Fate
from spojoin.protocol.access import transactional_id
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.topology import Role, Topic
from spojoin.runtime import process, service
from spojoin.runtime.__main__ import start
from spojoin.runtime.service import GenerationWatch
from spojoin.runtime.settings import load_settings
from spojoin.telemetry.metrics import value_of
from spojoin.wire.records import Announcement, Takeover
from tests.support.runtime_world import FRAMES, GENERATIONS, QUERY, RESULTS, Bench, barrier, emits, partial, result

PARTIALS = LogPartition("q.partials", 0)


class StopAfter(threading.Event):
    """A stop event that is set once `done` is true; it never waits."""

    def __init__(self, done) -> None:
        super().__init__()
        self.done = done
        self.waits = []
        self.rounds = 0

    def is_set(self) -> bool:
        self.rounds += 1
        assert self.rounds < 1000, "never done"
        return self.done()

    def wait(self, timeout=None) -> bool:
        self.waits.append(timeout)
        return self.is_set()


def test_after_a_lost_append_a_new_machine_starts_from_the_log():
    bench = Bench()
    bench.prepare = lambda m: setattr(m, "answer", lambda r: emits(Topic.PARTIALS, partial(r.epoch)))
    fates = iter([Fate.LANDS, Fate.LOST])
    bench.log.fate_of = lambda target: next(fates, Fate.LANDS) if target == PARTIALS else Fate.LANDS
    bench.append(FRAMES, barrier(0), barrier(1), barrier(2))
    stop = StopAfter(lambda: len(bench.machines) == 2 and len(bench.machines[1].records()) == 3)
    service._supervise(bench.charge(), stop)
    assert bench.machines[1].records() == [barrier(0), barrier(1), barrier(2)]
    assert value_of(bench.metrics.retries) == 1
    assert len(bench.log.records(PARTIALS)) == 4


def test_every_life_leaves_what_is_loaded_out_of_the_collectors_rounds():
    bench = Bench()
    spared = []
    fates = iter([Fate.LOST])
    bench.log.fate_of = lambda target: next(fates, Fate.LANDS) if target == PARTIALS else Fate.LANDS
    bench.prepare = lambda m: (
        spared.append(gc.get_freeze_count()),
        setattr(m, "answer", lambda r: emits(Topic.PARTIALS, partial(r.epoch))),
    )
    bench.append(FRAMES, barrier(0))
    service._supervise(bench.charge(), StopAfter(lambda: len(bench.machines) == 2))
    assert len(spared) == 2
    assert all(spared)
    assert gc.get_freeze_count() == 0


def test_waits_grow_while_failures_continue():
    bench = Bench()
    bench.prepare = lambda m: setattr(m, "answer", lambda _: emits(Topic.PARTIALS, partial(0)))
    bench.log.fate_of = lambda target: Fate.LOST if target == PARTIALS else Fate.LANDS
    bench.append(FRAMES, barrier(0))
    stop = StopAfter(lambda: len(bench.machines) == 9)
    service._supervise(bench.charge(), stop)
    assert stop.waits == sorted(stop.waits)
    assert stop.waits[0] < stop.waits[-1] == service.BACKOFF_S_MAX


def test_a_new_life_starts_at_the_current_result_position():
    bench = Bench(Role.SINK)
    bench.prepare = lambda m: setattr(m, "answer", lambda r: emits(Topic.RESULTS, result(r.epoch, 0, 4)))
    fates = iter([Fate.LANDS, Fate.LANDS_UNKNOWN])
    bench.log.fate_of = lambda target: next(fates, Fate.LANDS) if target == RESULTS else Fate.LANDS
    bench.append(FRAMES, barrier(0), barrier(1))
    stop = StopAfter(lambda: len(bench.machines) == 2)
    service._supervise(bench.charge(transactions=False), stop)
    assert [m.start for m in bench.machines] == [ResultPosition(0, 0), ResultPosition(2, 0)]


class FencedSink(Bench):
    """A sink that is fenced, by another instance that takes its place, before it writes its second result."""

    def __init__(self) -> None:
        super().__init__(Role.SINK)
        self.prepare = lambda machine: setattr(machine, "answer", self.answer)
        self.append(FRAMES, barrier(0))

    def answer(self, record) -> list:
        return emits(Topic.RESULTS, result(record.epoch, 0, 4))

    def is_fenced(self) -> bool:
        """Take its place as soon as its first result is out; whether it knows."""
        if len(self.log.records(RESULTS)) == 1 and len(self.log.records(FRAMES)) == 1:
            self.log.writer(transactional_id("q", "sink"))
            self.append(FRAMES, barrier(1))
        return "newer" in self.health.waits_for and not self.health.is_ready


def test_a_fenced_service_ends_where_nobody_asks_it_to():
    bench = FencedSink()
    stop = StopAfter(lambda: bench.is_fenced() and False)
    with pytest.raises(Fenced):
        service._supervise(bench.charge(), stop)
    assert len(bench.machines) == 1
    assert stop.waits == [1.0] * service.FENCED_S


def test_a_fenced_service_waits_to_be_asked_to_end():
    """So nothing starts it anew, to fence the instance that has taken its place in an upgrade."""
    bench = FencedSink()
    stop = StopAfter(bench.is_fenced)
    service._supervise(bench.charge(), stop)
    assert len(bench.machines) == 1
    assert stop.waits == [1.0]
    assert value_of(bench.metrics.fenced) == 0


def test_a_service_that_starts_lets_the_one_before_it_speak_until_it_has_read_the_log():
    bench = FencedSink()
    before = bench.log.writer(transactional_id("q", "sink"))

    def speak() -> None:
        before.append(PARTIALS, b"")
        before.flush(1.0)

    prepare = bench.prepare
    bench.prepare = lambda machine: (prepare(machine), speak())
    service._supervise(bench.charge(), StopAfter(lambda: bool(bench.log.records(RESULTS))))
    assert len(bench.log.records(PARTIALS)) == 1
    with pytest.raises(Fenced):
        speak()


@pytest.mark.parametrize("role", [Role.SINK, Role.ROUTER])
def test_a_generation_with_a_successor_is_served_until_the_takeover_and_its_router_ends_it_if_no_other_does(role):
    bench = Bench(role)
    charge = bench.charge(owner="r")
    lookout = GenerationWatch(charge, charge.office.serving())
    assert not lookout.is_over(0.0)
    bench.append(GENERATIONS, Announcement(2, 7, QUERY.text, "window"))
    looks = service.GENERATION_MS, service.GENERATION_MS + service.TAKEOVER_MS
    assert not any(lookout.is_over(now_ms) for now_ms in (1.0, *looks))
    assert charge.office.awaits_takeover
    assert lookout.is_over(looks[0] + service.ANNOUNCER_MS) is (role is Role.ROUTER)
    bench.append(GENERATIONS, Takeover(2, 1, {}, (0,), {}))
    assert lookout.is_over(looks[0] + 2 * service.ANNOUNCER_MS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_requests_the_end_and_handlers_are_restored(number):
    before = signal.getsignal(number)
    with process.stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


def test_an_invalid_query_file_ends_the_start_with_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPOJOIN_QUERY_FILE", str(tmp_path / "none.yaml"))
    assert process.main(Role.SINK, lambda: start((Role.SINK,), load_settings())) == process.EXIT_CONFIGURATION
    assert "none.yaml" in capsys.readouterr().err


def test_a_missing_setting_ends_the_start_with_its_name(capsys, monkeypatch):
    monkeypatch.delenv("SPOJOIN_QUERY_FILE", raising=False)
    assert process.main(Role.SINK, lambda: start((Role.SINK,), load_settings())) == process.EXIT_CONFIGURATION
    assert "SPOJOIN_QUERY_FILE" in capsys.readouterr().err
