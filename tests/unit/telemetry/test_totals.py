"""Totals in the store continue after a restart, and waiting rows have an age."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.shared_state import key
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.metrics import value_of
from spojoin.wire.records import SourcePosition
from spojoin.wire.result_writers import FramesWriter, JsonWriter
from tests.support.feeding import Feeding
from tests.support.frames import FRAME_TUPLES, log_of_frames
from tests.support.runtime_world import FRAMES, Bench, emits, result


def totals(bench: Bench) -> dict[str, int]:
    return {name: int(value) for name, value in bench.store.get(key("q", "totals")).items()}


def published(bench: Bench, loop) -> dict[str, int]:
    for _ in range(3):
        bench.clock.sleep(1)
        loop.step(0)
    return totals(bench)


@pytest.mark.parametrize("writer", [FramesWriter(), JsonWriter()])
def test_a_restarted_sink_goes_on_counting(writer):
    bench = Bench(Role.SINK, result_writer=writer)
    bench.append(FRAMES, *log_of_frames())
    answers = iter([emits(Topic.RESULTS, result(0, 0, 8)), emits(Topic.RESULTS, result(1, 0, 3, is_last=False))])
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: next(answers, []))
    assert published(bench, bench.loop()) == {"answered": 11, "matches": 22}
    bench.store.clear()
    later = iter([emits(Topic.RESULTS, result(1, 3, 8))])
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: next(later, []))
    assert published(bench, bench.loop()) == {"answered": 16, "matches": 32}


def test_half_written_json_results_are_counted_once():
    bench = Bench(Role.SINK, result_writer=JsonWriter())
    bench.append(FRAMES, *log_of_frames())
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.RESULTS, result(0, 0, 8)))
    bench.loop().step(0)
    again = Bench(Role.SINK, result_writer=JsonWriter())
    again.append(FRAMES, *log_of_frames())
    for record in bench.log.records(LogPartition("q.results", 0))[:2]:
        again.append_bytes(record.input, record.value, dict(record.headers))
    answers = iter([emits(Topic.RESULTS, result(0, 0, 8))])
    again.prepare = lambda machine: setattr(machine, "answer", lambda _: next(answers, []))
    assert published(again, again.loop()) == {"answered": 8, "matches": 16}


def test_the_routers_totals_come_from_the_log():
    bench = Bench(Role.ROUTER)
    bench.append(FRAMES, *log_of_frames())
    assert published(bench, bench.loop()) == {"rows": 30, "refused": 4}


def test_nothing_is_reported_before_the_log_was_read():
    """Reading the log again would count up from its beginning."""
    bench = Bench(Role.ROUTER)
    bench.append(FRAMES, *log_of_frames())
    loop = bench.loop()
    bench.health.is_ready = False
    bench.world.reporter.publish({}, loop._departures.result_position)
    assert totals(bench) == {}


def test_the_oldest_row_without_a_result_has_an_age():
    bench = Bench(Role.SINK)
    bench.append(FRAMES, *log_of_frames())  # frame 1 was produced at 1 s
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: [])
    bench.append_result(result(0, 0, FRAME_TUPLES))
    published(bench, bench.loop())
    published_ms = float(bench.store.get(key("q", "status", "x-0"))["unanswered_ms"])
    assert published_ms == bench.clock.wall_ms() - 1000
    assert value_of(bench.metrics.unanswered_age) == published_ms / 1000
    bench.append_result(result(3, 0, FRAME_TUPLES))
    bench.clock.sleep(2)
    published(bench, bench.loop())
    assert np.isnan(float(bench.store.get(key("q", "status", "x-0"))["unanswered_ms"]))
    assert value_of(bench.metrics.unanswered_age) == 0


def test_rows_outside_frames_wait_since_their_production():
    feeding = Feeding(a=1, b=1)
    feeding.machine.active = True
    assert feeding.feed.waits_since_ms() is None
    feeding.turn()
    feeding.machine.full.add((0, 0))  # the machine wants none of it
    feeding.put("a", 0)
    first_ms = feeding.clock.wall_ms()
    feeding.clock.sleep(5)
    feeding.put("b", 0)
    feeding.turn()
    assert feeding.feed.waits_since_ms() == first_ms
    feeding.machine.full.clear()
    feeding.turn()
    assert feeding.feed.waits_since_ms() == first_ms  # passed to the machine, but not in a frame yet
    feeding.machine.positions = {(0, 0): SourcePosition(1, 0, 0)}
    assert feeding.feed.waits_since_ms() == first_ms + 5_000
    feeding.machine.positions[1, 0] = SourcePosition(1, 0, 0)
    assert feeding.feed.waits_since_ms() is None


def needed(bench: Bench) -> dict[str, int]:
    (family,) = [each for each in bench.metrics.registry.collect() if each.name == "spojoin_needed_instances"]
    return {sample.labels["needed"]: int(sample.value) for sample in family.samples}


def after(bench: Bench, *, turns: int = 3) -> dict[str, int]:
    loop = bench.loop()
    for _ in range(turns):
        bench.clock.sleep(1)
        loop.step(0)
    return needed(bench)


def test_workers_are_those_of_the_log_once_it_has_been_read() -> None:
    bench = Bench(Role.SINK)
    bench.world.reporter.expect(("router", "sink"), 7, instances=2)
    bench.append(FRAMES, *log_of_frames())
    workers = log_of_frames()[-1].workers
    assert workers != 7
    names = [*(f"pojoin-{number}" for number in range(workers)), "router", "sink"]
    assert after(bench) == dict.fromkeys(sorted(names), 2)


def test_workers_inside_a_process_are_no_services() -> None:
    bench = Bench(Role.SINK)
    bench.world.reporter.expect(("router+pojoin", "sink"), 7, inside=1)
    bench.append(FRAMES, *log_of_frames())
    assert "pojoin-0" not in after(bench)


@pytest.mark.parametrize(("role", "said"), [(Role.ROUTER, {"pojoin-0", "pojoin-1"}), (Role.SINK, set())])
def test_before_any_frame_only_the_router_knows_how_many_workers_there_are(role, said) -> None:
    bench = Bench(role)
    bench.world.reporter.expect(("router", "sink"), 2)
    assert after(bench).keys() == {"router", "sink"} | said
