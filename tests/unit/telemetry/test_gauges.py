"""Metrics about frames and machines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import generate_latest

from loadgen.window import window_of
from spojoin.embedded.engine import Engine
from spojoin.ports.shared_state import Completeness, key
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.telemetry.metrics import MachineGauges, Metrics, WindowGauges, value_of
from spojoin.wire.records import Frame
from tests.support.runtime_world import FRAMES, Bench, FakeMachine, barrier, result

LENGTH, SLIDE, TUPLES = 20, 5, 97
SELF = """
name: q
streams: {s: {schema: {a: long, b: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND l.b < r.b WINDOW AS (SLIDE INTERVAL 'SLIDE_' ON 'LENGTH_')
"""
CROSS = """
name: q
streams:
  x: {schema: {a: long}, time: t}
  y: {schema: {b: long}, time: t}
order: event_time
lateness: '0 s'
sql: SELECT * FROM x JOIN y ON x.a > y.b WINDOW AS (SLIDE INTERVAL 'SLIDE_' ON 'LENGTH_')
"""


def query(text, slide=SLIDE, length=LENGTH):
    return parse_query(text.replace("SLIDE_", str(slide)).replace("LENGTH_", str(length)))


def frames_of(asked, feeds, frame_tuples=8):
    """The frames that a router makes of (stream, columns) pairs."""
    frames = []

    def note(record):
        if isinstance(record, Frame):
            frames.append(record)
        return record

    config = RouterConfig(router_id="r", credits_frames=UNLIMITED, frame_tuples=frame_tuples, batch_tuples=16)
    engine = Engine(asked, config, note)
    for stream, columns in feeds:
        list(engine.feed(stream, pa.record_batch(columns)))
    for stream in range(len(asked.streams)):
        list(engine.end(stream))
    list(engine.flush())
    return frames


def window(count):
    """Tuples in the window of a tuple with `count` before it, by the definition."""
    return count - window_of(count, LENGTH, SLIDE).start


def noted(asked, frames):
    metrics = Metrics()
    gauges = WindowGauges(asked, metrics)
    for frame in frames:
        gauges.wrote(frame)
        gauges.saw(frame)
    return metrics


def test_a_self_join_counts_the_pairs_that_a_nested_loop_would_compare():
    rng = np.random.default_rng(3)
    asked = query(SELF)
    metrics = noted(
        asked, frames_of(asked, [("s", {"a": rng.integers(0, 9, TUPLES), "b": rng.integers(0, 9, TUPLES)})])
    )
    assert value_of(metrics.candidates) == sum(window(count) for count in range(TUPLES))
    assert LENGTH - SLIDE <= value_of(metrics.window_tuples) <= LENGTH
    assert value_of(metrics.window_fill) == value_of(metrics.window_tuples) / LENGTH


def test_two_streams_search_each_others_windows():
    rng = np.random.default_rng(4)
    times = [np.sort(rng.choice(10_000, count, replace=False)) * 2 + side for side, count in enumerate((60, 31))]
    asked = query(CROSS)
    feeds = [("x", {"a": times[0], "t": times[0]}), ("y", {"b": times[1], "t": times[1]})]
    metrics = noted(asked, frames_of(asked, feeds))
    expected = 0
    for own, other in (times, times[::-1]):
        expected += sum(window(int((other < time).sum())) for time in own)
    assert value_of(metrics.candidates) == expected
    held = {s.labels["stream"]: s.value for s in next(iter(metrics.window_tuples.collect())).samples}
    assert all(LENGTH - SLIDE <= held[stream] <= LENGTH for stream in "xy")


def test_a_window_fills():
    asked = query(SELF)
    some = {"a": np.arange(10), "b": np.arange(10)}
    assert value_of(noted(asked, frames_of(asked, [("s", some)])).window_fill) == 0.5


def test_a_time_window_is_full_once_a_tuple_has_left():
    asked = parse_query(
        "name: q\nstreams: {s: {schema: {a: long}, time: t}}\norder: event_time\nlateness: '0 s'\n"
        "sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '2 s')\n"
    )
    times = np.arange(0, 4000, 100)
    frames = frames_of(asked, [("s", {"a": times, "t": times})])
    fills = [value_of(noted(asked, frames[: at + 1]).window_fill) for at in range(len(frames))]
    assert fills[0] == 0
    assert fills[-1] == 1
    assert fills == sorted(fills)


class CountingMachine(FakeMachine):
    def __init__(self, compared, held) -> None:
        super().__init__(START)
        self.compared, self.held = compared, held

    def counters(self):
        return {"comparisons": self.compared}

    def state_tuples(self):
        return self.held

    def state_bytes(self):
        return 8 * self.held


def test_counters_continue_when_a_new_machine_starts_from_zero():
    metrics = Metrics()
    gauges = MachineGauges(metrics)
    first, second = CountingMachine(10, 3), CountingMachine(4, 5)
    gauges.read(first)
    first.compared = 25
    gauges.read(first)
    gauges.read(second)
    second.compared = 30
    gauges.read(second)
    assert value_of(metrics.of_machine["comparisons"]) == 55
    assert (value_of(metrics.state_tuples), value_of(metrics.state_bytes)) == (5, 40)


def test_a_machine_need_not_have_any_counters():
    metrics = Metrics()
    MachineGauges(metrics).read(FakeMachine(START))
    assert value_of(metrics.state_tuples) == 0


def test_every_machines_counters_have_metrics():
    from spojoin.roles.pojoin.machine import PoJoinMachine

    for output in ("count", "bitmap"):
        asked = parse_query(SELF.replace("SLIDE_", "5").replace("LENGTH_", "20") + f"output: {output}\n")
        metrics = Metrics()
        machine = PoJoinMachine(asked, 0, START)
        assert machine.counters().keys() <= metrics.of_machine.keys()
        MachineGauges(metrics).read(machine)


def test_labels_of_the_service_are_on_every_sample():
    labels = {"query": "q", "role": "sink", "service_name": "sink"}
    lines = generate_latest(Metrics(labels).registry).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert len(samples) > 100
    assert all(f'{name}="{value}"' in line for line in samples for name, value in labels.items())
    assert not any("_created" in line for line in lines)


def test_known_label_values_count_from_zero():
    told_at_start = generate_latest(Metrics().registry).decode()
    assert 'spojoin_dead_letters_total{reason="late"} 0.0' in told_at_start
    assert 'spojoin_retries_total{error="LogUnavailable"} 0.0' in told_at_start


def test_a_life_begins_with_a_replay_and_reports_its_duration():
    bench = Bench(Role.SINK)
    bench.append(FRAMES, barrier(2))
    loop = bench.loop()
    bench.clock.sleep(3)
    loop.step(0)
    loop.step(0)
    metrics = bench.metrics
    assert (value_of(metrics.replays), value_of(metrics.replay_seconds), value_of(metrics.caught_up)) == (1, 3, 1)
    assert value_of(metrics.epochs) == 3
    bench.loop()
    assert (value_of(metrics.replays), value_of(metrics.caught_up)) == (2, 0)


def test_the_result_position_is_reported_from_the_start():
    bench = Bench(Role.MUTABLE)
    bench.append_result(result(6, 0, 4))
    bench.loop().step(0)
    assert value_of(bench.metrics.result_frame) == 7


def test_the_sink_reports_the_last_verdict_and_keeps_it_without_a_store():
    bench = Bench(Role.SINK)
    reporter, metrics = bench.world.reporter, bench.metrics
    reporter.publish({}, ResultPosition(0, 0))
    assert np.isnan(value_of(metrics.completeness))
    bench.store.put({key("q", "completeness"): Completeness(0.75, False, 90_000).fields()})
    reporter.publish({}, ResultPosition(0, 0))
    bench.store.remove(key("q", "completeness"))
    reporter.publish({}, ResultPosition(0, 0))
    assert [value_of(g) for g in (metrics.completeness, metrics.exact, metrics.checked)] == [0.75, 0, 90]


@pytest.mark.parametrize("role", [Role.MUTABLE, Role.ROUTER])
def test_other_roles_do_not_read_the_verdict(role):
    bench = Bench(role)
    bench.store.put({key("q", "completeness"): Completeness(1.0, True, 1).fields()})
    bench.world.reporter.publish({}, ResultPosition(0, 0))
    assert np.isnan(value_of(bench.metrics.completeness))
