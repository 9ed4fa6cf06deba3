"""The loop shows frames to those who time their hops, and the reporter publishes what they found."""

from __future__ import annotations

import math

import numpy as np

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock
from spojoin.ports.shared_state import key
from spojoin.protocol.machine import START, Emit, ResultPosition
from spojoin.protocol.packed_machine import Fellow, Pack
from spojoin.protocol.packing import DERIVED, edge_of
from spojoin.protocol.standby import Seat, standby_of
from spojoin.protocol.topology import Hop, Role, Topic
from spojoin.telemetry.hop import HopTime, hop_time
from spojoin.telemetry.reporter import Identity, Reporter
from spojoin.wire.records import Frame, Part
from tests.support.feeding import FakeRouter, parse
from tests.support.frames import FRAME_TUPLES, log_of_frames, make_frame, make_slice
from tests.support.runtime_world import FRAMES, Bench, FakeMachine, emits, partial, result

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


class FramingRouter(FakeRouter):
    """Cuts a frame of whatever rows it is given, after 7 ms."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.active = True
        self._clock = clock

    def on_rows(self, stream, partition, rows):
        self._clock.sleep(0.007)
        slices, runs = [make_slice([range(len(rows))] * 2)], np.ones(len(rows), np.uint32)
        yield Emit(Topic.FRAMES, 0, make_frame(slices, produced_ms=rows.produced_ms, produced_runs=runs))


class RouterBench(Bench):
    """A router whose rows were produced when their messages were."""

    def __init__(self) -> None:
        super().__init__(Role.ROUTER, parse=self._parse)
        self.log.create_topics({"in.trips": 1})

    def _machine(self, result_position):
        return FramingRouter(self.clock)

    def _parse(self, stream, partition, records):
        rows = parse(stream, partition, records)
        rows.produced_ms = np.array([record.timestamp_ms for record in records])
        return rows


def test_rows_arrive_when_the_router_takes_them():
    bench = RouterBench()
    loop = ready_loop(bench)
    bench.append_bytes(LogPartition("in.trips", 0), b"x")
    bench.clock.sleep(0.020)
    bench.append_bytes(LogPartition("in.trips", 0), b"y")
    loop.step(0)
    found = {hop: took.mean_ms for hop, took in reported(bench, loop).items()}
    assert (found[Hop.ARRIVAL], found[Hop.FRAMING]) == (20, 7)


def test_where_roles_share_a_process_each_of_them_is_heard():
    bench = Bench(Role.SINK)
    roles = (Role.LOGICAL_AND, Role.SINK)
    fellows = [Fellow(role, FakeMachine(START)) for role in roles]
    answer = Part(0, 0, 0, 0, FRAME_TUPLES, ())
    fellows[0].machine.answer = lambda record: emits(Topic.MATCHES, answer)
    pack = Pack(fellows, edge_of(roles))
    reporter = Reporter(Identity(roles, "x", "q", 9), bench.shared, bench.clock, bench.metrics, bench.health)
    reporter.begin_life(pack)
    bench.health.is_ready = True
    reporter.saw(0, 0, LOGGED[0], bench.clock.wall_ms())
    assert [action for action in pack.on_record(Topic.FRAMES, 0, 0, LOGGED[0]) if action.topic in DERIVED] == []
    bench.clock.sleep(0.005)
    reporter.emitted(Emit(Topic.MATCHES, 0, answer))  # it leaves the process as well, later
    assert bench.metrics.hops.lately(bench.clock.monotonic_ms())[Hop.COMBINING].mean_ms == 0


def test_members_of_a_process_are_heard_behind_its_seat():
    bench = Bench(Role.SINK)
    pack = Pack([Fellow(Role.SINK, FakeMachine(START))], edge_of((Role.SINK,)))
    bench.world.reporter.begin_life(standby_of(pack, Seat("sink", "1", "life", 500), 0))
    assert pack.listener == bench.world.reporter.hops.made


def test_an_instance_that_is_silent_times_nothing():
    bench = Bench(Role.MUTABLE)
    loop = ready_loop(bench)
    bench.machines[0].is_silent = True
    bench.append(FRAMES, BARRIER, LOGGED[0])
    loop.step(0)
    assert reported(bench, loop) == {}
    bench.machines[0].is_silent = False
    bench.append(FRAMES, LOGGED[1])
    loop.step(0)
    assert reported(bench, loop).keys() == {Hop.DELIVERY}


def test_a_new_life_knows_no_frame_of_the_one_before():
    bench = Bench(Role.MUTABLE)
    loop = ready_loop(bench)
    bench.append(FRAMES, BARRIER, LOGGED[0])
    loop.step(0)
    again = ready_loop(bench)
    bench.machines[1].answer = lambda record: emits(Topic.PARTIALS, partial(0))
    bench.append(FRAMES, BARRIER)
    again.step(0)
    assert reported(bench, again).keys() == {Hop.DELIVERY}


def test_frames_whose_results_are_out_are_forgotten():
    bench = Bench(Role.MUTABLE)
    loop = ready_loop(bench)
    bench.append(FRAMES, BARRIER, *LOGGED)
    loop.step(0)
    bench.world.reporter.publish({}, ResultPosition(3, 2))
    assert list(bench.world.reporter.hops._traces) == [3]


def test_a_minute_without_frames_empties_the_report():
    bench = Bench(Role.MUTABLE)
    loop = ready_loop(bench)
    bench.append(FRAMES, BARRIER, LOGGED[0])
    loop.step(0)
    assert reported(bench, loop).keys() == {Hop.DELIVERY}
    bench.clock.sleep(90)
    assert reported(bench, loop) == {}
