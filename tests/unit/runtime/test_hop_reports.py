"""The loop shows frames to those who time their hops, and the reporter publishes what they found."""

from __future__ import annotations

import math

import numpy as np

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.shared_state import key
from spojoin.protocol.machine import Emit
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.hop import Hop, HopTime, hop_time
from spojoin.wire.records import Frame, Part
from tests.support.frames import FRAME_TUPLES, log_of_frames
from tests.support.runtime_world import FRAMES, Bench, emits, partial, result

BARRIER, *LOGGED = log_of_frames()


def reported(bench: Bench, loop) -> dict[Hop, HopTime]:
    """The hops of the service's status, those without a frame left out."""
    bench.clock.sleep(1)
    loop.step(0)
    status = bench.store.get(key("q", "status", "x-0"))
    found = {Hop(name.removeprefix("hop:")): hop_time(text) for name, text in status.items() if name.startswith("hop:")}
    return {hop: took for hop, took in found.items() if not math.isnan(took.mean_ms)}


def ready_loop(bench: Bench):
    loop = bench.loop()
    loop.step(0)
    loop.step(0)
    assert bench.health.is_ready
    return loop


def test_a_sinks_hops_up_to_readable_results():
    bench = Bench(Role.SINK)
    answers = {"part": emits(Topic.RESULTS, result(0, 0, FRAME_TUPLES))}
    bench.prepare = lambda machine: setattr(
        machine, "answer", lambda record: answers["part"] if isinstance(record, Part) else []
    )
    loop = ready_loop(bench)
    bench.append(FRAMES, BARRIER, LOGGED[0])
    bench.clock.sleep(0.004)
    loop.step(0)
    bench.clock.sleep(0.030)
    bench.append(LogPartition("q.matches", 0), Part(0, 0, 0, 0, FRAME_TUPLES, ()))
    loop.step(0)
    found = {hop: took.mean_ms for hop, took in reported(bench, loop).items()}
    assert found == {Hop.DELIVERY: 4, Hop.EVALUATION: 30, Hop.ASSEMBLY: 0, Hop.SETTLING: 0}


def test_what_is_read_again_at_the_start_is_not_timed():
    bench = Bench(Role.MUTABLE)
    bench.prepare = lambda machine: setattr(
        machine, "answer", lambda r: emits(Topic.PARTIALS, partial(r.frame_id)) if isinstance(r, Frame) else []
    )
    bench.append(FRAMES, BARRIER, *LOGGED[:2])
    bench.clock.sleep(3_600)
    loop = ready_loop(bench)
    assert reported(bench, loop) == {}
    bench.append(FRAMES, LOGGED[2])
    loop.step(0)
    assert reported(bench, loop).keys() == {Hop.DELIVERY, Hop.RANKING}


def test_a_router_reads_its_frame_back():
    bench = Bench(Role.ROUTER)
    loop = ready_loop(bench)
    frame = LOGGED[0]
    frame.produced_ms = np.array([bench.clock.wall_ms() - 40])
    bench.world.reporter.hops.took_rows(bench.clock.wall_ms() - 40, bench.clock.wall_ms())
    bench.append(FRAMES, BARRIER)
    bench.machines[0].answer = lambda record: [] if isinstance(record, Frame) else [Emit(Topic.FRAMES, 0, frame)]
    loop.step(0)
    loop.step(0)
    found = {hop: took.mean_ms for hop, took in reported(bench, loop).items()}
    assert found == {Hop.ARRIVAL: 40, Hop.FRAMING: 0, Hop.WRITING: 0}


def test_a_minute_without_frames_empties_the_report():
    bench = Bench(Role.MUTABLE)
    loop = ready_loop(bench)
    bench.append(FRAMES, BARRIER, LOGGED[0])
    loop.step(0)
    assert reported(bench, loop).keys() == {Hop.DELIVERY}
    bench.clock.sleep(90)
    assert reported(bench, loop) == {}
