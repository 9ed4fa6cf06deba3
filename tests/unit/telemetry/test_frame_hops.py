"""How long a frame takes hop by hop, by a clock that the test turns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from spojoin.ports.memory import ManualClock
from spojoin.protocol.machine import Emit, Machine
from spojoin.protocol.packed_machine import Fellow, Pack
from spojoin.protocol.packing import edge_of
from spojoin.protocol.topology import PACKABLE, Hop, Role, Topic
from spojoin.telemetry.frame_hops import CHUNKS_MAX, FRAMES_MAX, FrameHops, hops_of
from spojoin.telemetry.hop import HopTime, hop_time
from spojoin.telemetry.hop_times import PENDING_MAX, SLICE_MS, SPAN_MS, HopTimes
from spojoin.wire.records import Frame, Part, Partial
from tests.support.frames import make_closing, make_frame
from tests.support.runtime_world import result

COUNT = 8


class Watched:
    """A process of some roles; `pass_ms` turns the one clock that it has for everything."""

    def __init__(self, *roles: Role) -> None:
        self.clock = ManualClock(1_000_000.0)
        self.times = HopTimes()
        self.hops = FrameHops(roles, self.clock, self.times)

    def pass_ms(self, ms: float) -> None:
        self.clock.sleep(ms / 1000)

    def took(self, record, *, delayed_ms: int = 0) -> None:
        self.hops.took(record, self.clock.wall_ms() - delayed_ms)

    def frame(self, frame_id: int = 0, **fields: object) -> Frame:
        return make_frame(count=COUNT, frame_id=frame_id, **fields)

    def means(self) -> dict[Hop, float]:
        """The mean of each hop that was seen, in ms."""
        found = self.times.lately(self.clock.monotonic_ms())
        return {hop: round(took.mean_ms, 3) for hop, took in found.items() if not math.isnan(took.mean_ms)}


def part(number: int, begin: int = 0, end: int = COUNT, frame_id: int = 0) -> Part:
    return Part(0, frame_id, number, begin, end, ())


def partial(predicate: int, frame_id: int = 0) -> Partial:
    return Partial(0, frame_id, predicate, ())


# -- one role a process


def test_a_router_times_from_the_oldest_row_to_the_log():
    router = Watched(Role.ROUTER)
    produced_ms = router.clock.wall_ms()
    router.pass_ms(30)
    router.hops.took_rows(produced_ms, produced_ms + 9)
    router.pass_ms(5)
    router.hops.framed(router.frame(produced_ms=np.array([produced_ms + 4, produced_ms])))
    router.pass_ms(2)
    router.took(router.frame())
    assert router.means() == {Hop.ARRIVAL: 30, Hop.FRAMING: 5, Hop.WRITING: 2}


def test_a_row_arrives_with_the_chunk_that_spans_its_production():
    """One input lags: its rows are old, whatever newer rows of others were taken before."""
    router = Watched(Role.ROUTER)
    now_ms = router.clock.wall_ms()
    router.hops.took_rows(now_ms - 5, now_ms)
    router.pass_ms(40)
    router.hops.took_rows(now_ms - 9_000, now_ms - 8_000)
    router.pass_ms(10)
    router.hops.took_rows(now_ms + 20, now_ms + 50)
    router.hops.framed(router.frame(produced_ms=np.array([now_ms - 8_500])))
    assert router.means() == {Hop.ARRIVAL: 8_540, Hop.FRAMING: 10}


def test_a_row_older_than_all_chunks_known_came_with_the_oldest_or_before():
    router = Watched(Role.ROUTER)
    for _ in range(CHUNKS_MAX + 50):
        router.hops.took_rows(router.clock.wall_ms(), router.clock.wall_ms())
        router.pass_ms(1)
    router.hops.framed(router.frame(produced_ms=np.array([1_000_000])))
    assert router.means() == {Hop.ARRIVAL: 50, Hop.FRAMING: CHUNKS_MAX}


def test_producers_whose_clock_is_ahead_make_no_hop_negative():
    router = Watched(Role.ROUTER)
    ahead_ms = router.clock.wall_ms() + 700
    router.hops.took_rows(ahead_ms, ahead_ms)
    router.hops.framed(router.frame(produced_ms=np.array([ahead_ms])))
    assert router.means() == {Hop.ARRIVAL: 0, Hop.FRAMING: 0}
    sink = Watched(Role.SINK)
    sink.took(sink.frame(), delayed_ms=-700)
    assert sink.means() == {Hop.DELIVERY: 0}


def test_a_worker_times_delivery_and_search_up_to_the_last_chunk():
    worker = Watched(Role.POJOIN)
    worker.took(worker.frame(), delayed_ms=7)
    for begin, end in ((0, 3), (3, COUNT)):
        worker.pass_ms(10)
        worker.hops.made(part(2, begin, end))
    assert worker.means() == {Hop.DELIVERY: 7, Hop.SEARCH: 20}


def test_the_logical_and_times_the_mutable_part():
    combiner = Watched(Role.LOGICAL_AND)
    combiner.took(combiner.frame())
    combiner.pass_ms(4)
    combiner.hops.made(part(0))
    assert combiner.means() == {Hop.DELIVERY: 0, Hop.COMBINING: 4}


def test_a_joiner_of_several_predicates_is_done_with_its_last():
    joiner = Watched(Role.MUTABLE)
    for frame_id in range(5):
        joiner.took(joiner.frame(frame_id))
        for predicate in (1, 3):
            joiner.pass_ms(6)
            joiner.hops.made(partial(predicate, frame_id))
    found = joiner.times.lately(joiner.clock.monotonic_ms())[Hop.RANKING]
    assert found.p50_ms == pytest.approx(12, rel=0.25)
    assert joiner.means()[Hop.RANKING] == 11  # what the first frame's predicate 1 took is counted: it might be the last


def test_a_sink_waits_for_the_last_part_and_says_when_results_are_readable():
    sink = Watched(Role.SINK)
    sink.took(sink.frame(), delayed_ms=3)
    for number in (2, 0, 1):
        sink.pass_ms(5)
        sink.took(part(number))
    sink.pass_ms(2)
    sink.hops.made(result(0, 0, 4, is_last=False))
    sink.pass_ms(2)
    sink.hops.made(result(0, 4, COUNT))
    sink.pass_ms(9)
    sink.hops.settled(1)
    assert sink.means() == {Hop.DELIVERY: 3, Hop.EVALUATION: 15, Hop.ASSEMBLY: 4, Hop.SETTLING: 9}


def test_parts_that_came_before_the_frame_make_no_evaluation():
    sink = Watched(Role.SINK)
    sink.took(part(0))
    sink.pass_ms(5)
    sink.took(sink.frame())
    sink.pass_ms(1)
    sink.hops.made(result(0, 0, COUNT))
    assert sink.means() == {Hop.DELIVERY: 0, Hop.EVALUATION: 0, Hop.ASSEMBLY: 1}


def test_results_settle_in_any_number_at_once():
    sink = Watched(Role.SINK)
    for frame_id in range(3):
        sink.took(sink.frame(frame_id))
        sink.took(part(0, frame_id=frame_id))
        sink.hops.made(result(frame_id, 0, COUNT))
        sink.pass_ms(10)
    sink.hops.settled(2)
    assert sink.means()[Hop.SETTLING] == 25
    sink.hops.settled(3)
    assert sink.means()[Hop.SETTLING] == 20


# -- several roles in one process


class Script(Machine):
    """A fellow that answers every frame with records, after some time."""

    def __init__(self, world: Watched, ms: float, *emits: Emit) -> None:
        self._world, self._ms, self._emits = world, ms, emits

    def on_record(self, topic, partition, offset, record):
        if isinstance(record, Frame):
            self._world.pass_ms(self._ms)
            yield from self._emits


def test_members_of_a_process_are_timed_though_their_records_never_leave_it():
    world = Watched(*PACKABLE)
    fellows = [
        Fellow(
            Role.MUTABLE, Script(world, 3, Emit(Topic.PARTIALS, 0, partial(0)), Emit(Topic.PARTIALS, 1, partial(1)))
        ),
        Fellow(Role.POJOIN, Script(world, 8, Emit(Topic.MATCHES, 1, part(1)))),
        Fellow(Role.LOGICAL_AND, Script(world, 1, Emit(Topic.MATCHES, 0, part(0)))),
        Fellow(Role.SINK, Script(world, 2, Emit(Topic.RESULTS, 0, result(0, 0, COUNT)))),
    ]
    pack = Pack(fellows, edge_of(PACKABLE))
    pack.listener = world.hops.made
    frame = world.frame()
    world.took(frame)
    assert [action.topic for action in pack.on_record(Topic.FRAMES, 0, 5, frame)] == [Topic.RESULTS]
    found = world.means()
    assert found.pop(Hop.RANKING) == 3
    assert found == {Hop.SEARCH: 11, Hop.COMBINING: 12, Hop.EVALUATION: 12, Hop.ASSEMBLY: 2}


def test_what_a_process_evaluates_on_its_frames_way_into_the_log_costs_no_evaluation():
    world = Watched(*PACKABLE)
    world.hops.framed(world.frame(produced_ms=np.array([world.clock.wall_ms()])))
    world.pass_ms(6)
    world.hops.made(part(1))
    world.pass_ms(4)
    world.took(world.frame())
    world.hops.made(result(0, 0, COUNT))
    found = world.means()
    assert (found[Hop.SEARCH], found[Hop.WRITING], found[Hop.EVALUATION], found[Hop.ASSEMBLY]) == (6, 10, 0, 0)


def test_the_hops_of_a_process_follow_from_its_roles():
    assert hops_of(PACKABLE) == tuple(hop for hop in Hop if hop is not Hop.DELIVERY)
    assert hops_of((Role.MUTABLE, Role.LOGICAL_AND)) == (Hop.DELIVERY, Hop.RANKING, Hop.COMBINING)
    assert hops_of((Role.PERMUTATION,)) == hops_of((Role.CONTROLLER,)) == ()
    assert {hop for role in Role for hop in hops_of((role,))} == set(Hop)


def test_a_frame_in_which_rows_close_and_none_comes_has_no_row_to_time():
    router, worker = Watched(Role.ROUTER), Watched(Role.POJOIN)
    frame = make_frame(count=0, closings=(make_closing(COUNT),))
    assert frame.is_answered
    router.hops.framed(frame)
    router.pass_ms(2)
    router.took(frame)
    assert router.means() == {Hop.WRITING: 2}
    worker.took(frame)
    worker.pass_ms(3)
    worker.hops.made(part(1, 0, COUNT // 2))
    assert Hop.SEARCH not in worker.means()
    worker.hops.made(part(1, COUNT // 2, COUNT))
    assert worker.means()[Hop.SEARCH] == 3


# -- what is not timed


def test_frames_without_answers_are_not_followed():
    sink = Watched(Role.SINK)
    sink.took(make_frame(count=0))
    sink.took(sink.frame(1, silent=np.ones(COUNT, np.uint8)))
    for frame_id in range(2):
        sink.hops.made(result(frame_id, 0, COUNT))
    assert sink.means() == {}


def test_a_frame_that_was_not_seen_from_the_start_is_not_timed():
    worker, sink = Watched(Role.POJOIN), Watched(Role.SINK)
    worker.hops.made(part(1))
    sink.took(part(1))
    sink.hops.made(result(0, 0, COUNT))
    sink.hops.settled(1)
    assert worker.means() == sink.means() == {}


def test_a_frame_appended_twice_is_timed_once():
    worker = Watched(Role.POJOIN)
    worker.took(worker.frame(), delayed_ms=4)
    worker.pass_ms(60)
    worker.took(worker.frame(), delayed_ms=64)
    worker.hops.made(part(1))
    assert worker.means() == {Hop.DELIVERY: 4, Hop.SEARCH: 60}


def test_a_new_life_forgets_what_was_under_way():
    worker = Watched(Role.POJOIN)
    worker.took(worker.frame())
    worker.hops.begin()
    worker.hops.made(part(1))
    assert worker.means() == {Hop.DELIVERY: 0}


def test_memory_is_bounded_whatever_comes():
    worker = Watched(Role.POJOIN)
    for frame_id in range(FRAMES_MAX + 10):
        worker.took(worker.frame(frame_id))
    assert len(worker.hops._traces) == FRAMES_MAX
    worker.hops.forget_before(FRAMES_MAX)
    assert len(worker.hops._traces) == 10
    for _ in range(PENDING_MAX + 10):
        worker.times.observe(Hop.SEARCH, 1)
    assert len(worker.times._counts[Hop.SEARCH].pending) == PENDING_MAX


# -- the times themselves


def times_of(*ms: float, now_ms: float = 0.0) -> HopTime:
    times = HopTimes()
    times.expect([Hop.SEARCH])
    for each in ms:
        times.observe(Hop.SEARCH, each)
    return times.lately(now_ms)[Hop.SEARCH]


def test_mean_and_quantiles_of_the_last_minute():
    found = times_of(*[1.0] * 98, 40.0, 40.0)
    assert found.mean_ms == pytest.approx(1.78)
    assert 1 <= found.p50_ms < 1.3
    assert 40 <= found.p99_ms < 52
    assert 0.1 <= times_of(0.1).p50_ms < 0.13


def test_a_minute_without_frames_has_no_times():
    times = HopTimes()
    times.expect([Hop.SEARCH])
    times.observe(Hop.SEARCH, 5)
    assert times.lately(0)[Hop.SEARCH].mean_ms == 5
    assert all(math.isnan(value) for value in times.lately(SPAN_MS + SLICE_MS)[Hop.SEARCH])


def test_times_travel_through_the_store():
    found = HopTime(1.25, 2.0, 1_234.5)
    assert hop_time(found.text()) == found
    assert all(math.isnan(value) for value in hop_time(times_of().text()))


def test_prometheus_counts_all_and_knows_every_hop_from_the_start():
    times, registry = HopTimes(), CollectorRegistry()
    times.expect([Hop.SEARCH, Hop.DELIVERY])
    registry.register(times)
    assert 'spojoin_hop_seconds_count{hop="delivery"} 0.0' in generate_latest(registry).decode()
    for now_ms in (0, 5 * SPAN_MS):
        for ms in (0.01, 2.0, 5_000_000.0):
            times.observe(Hop.SEARCH, ms)
        times.lately(now_ms)
    (family,) = times.collect()
    samples = [sample for sample in family.samples if sample.labels["hop"] == "search"]
    buckets = [sample.value for sample in samples if sample.name.endswith("_bucket")]
    assert buckets[0] == 2
    assert buckets == sorted(buckets)
    assert buckets[-2:] == [4, 6]
    assert {s.name: s.value for s in samples}["spojoin_hop_seconds_sum"] == pytest.approx(10_000.00402)
