"""The loop over memory, turned by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import Fenced, WireError
from spojoin.ports.interfaces import AmbiguousAppend, Bounds, LogPartition, LogUnavailable
from spojoin.ports.memory import Fate
from spojoin.protocol.machine import Emit, ResultPosition, Rewind, Trim
from spojoin.protocol.topology import Role, Topic
from spojoin.runtime.departures import PUBLISH_MS
from spojoin.runtime.loop import DISCOVERY_MS, TRIM_MS
from spojoin.runtime.result_position import SILENCE_MS, UNTOLD_MS
from spojoin.telemetry.metrics import value_of
from spojoin.wire.codec import decode
from spojoin.wire.records import DeadLetter, Result
from spojoin.wire.result_forms import ResultForm
from spojoin.wire.result_writers import JsonWriter, RowsWriter
from spojoin.wire.results import BEGIN, ResultSequence, progress
from tests.support.runtime_world import FRAMES, RESULTS, TOPICS, Bench, barrier, emits, partial, result

PARTIALS = LogPartition("q.partials", 0)


def test_records_come_in_order_from_the_earliest_retained_on():
    bench = Bench()
    bench.append(FRAMES, barrier(0), barrier(1), barrier(2))
    bench.log.trim(FRAMES, 1)
    loop = bench.loop()
    loop.step(0)
    bench.append(FRAMES, barrier(3))
    loop.step(0)
    (machine,) = bench.machines
    assert machine.seen("record") == [(Topic.FRAMES, 0, offset, barrier(offset)) for offset in (1, 2, 3)]


def test_caught_up_comes_once_after_all_earlier_records():
    bench = Bench()
    bench.append(FRAMES, barrier(0), barrier(1))
    bench.prepare = lambda machine: machine.unwanted.add(Topic.FRAMES)
    loop = bench.loop()
    (machine,) = bench.machines
    loop.step(0)
    assert machine.seen("caught up") == []
    assert not bench.health.ready()[0]
    machine.unwanted.clear()
    for _ in range(3):
        loop.step(0)
    kinds = [call[0] for call in machine.calls if call[0] in ("record", "caught up")]
    assert kinds == ["record", "record", "caught up"]
    assert bench.health.ready()[0]


def test_later_records_do_not_delay_catching_up():
    bench = Bench()
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    bench.append(FRAMES, barrier(1))
    bench.machines[0].answer = lambda _: []
    loop.step(0)
    assert bench.machines[0].seen("caught up") == [()]


def test_an_unwanted_input_waits_while_others_go_on():
    bench = Bench(Role.LOGICAL_AND)
    bench.prepare = lambda machine: machine.unwanted.add(Topic.PARTIALS)
    loop = bench.loop()
    bench.append(PARTIALS, partial(0))
    bench.append(FRAMES, barrier(0))
    loop.step(0)
    (machine,) = bench.machines
    assert [call[0] for call in machine.seen("record")] == [Topic.FRAMES]
    machine.unwanted.clear()
    loop.step(0)
    assert [call[0] for call in machine.seen("record")] == [Topic.FRAMES, Topic.PARTIALS]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_life_ends_where_one_of_its_topics_was_deleted(is_made_anew):
    bench = Bench()
    loop = bench.loop()
    bench.log.delete_topics([PARTIALS.topic])
    if is_made_anew:
        bench.log.create_topics({PARTIALS.topic: 2})
    loop.step(0)
    bench.clock.sleep(DISCOVERY_MS / 1000)
    with pytest.raises(LogUnavailable, match=r"deleted, and made anew: q\.partials"):
        loop.step(0)


def test_a_life_waits_while_results_are_of_a_generation_that_it_knows_nothing_of():
    bench = Bench()
    bench.append_result(replace(result(3, 0, 4), generation=2))
    with pytest.raises(LogUnavailable, match="results are of generation 2"):
        bench.loop()


def test_emits_are_appended_in_order():
    bench = Bench()
    bench.prepare = lambda machine: setattr(
        machine, "answer", lambda r: emits(Topic.PARTIALS, partial(r.epoch), partial(r.epoch + 10))
    )
    bench.append(FRAMES, barrier(0), barrier(1))
    bench.loop().step(0)
    assert [decode(r.value).frame_id for r in bench.log.records(PARTIALS)] == [0, 10, 1, 11]


def test_the_machine_gets_the_time_at_every_tick():
    bench = Bench(tick_ms=5.0)
    loop = bench.loop()
    for _ in range(12):
        loop.step(0)
        bench.clock.sleep(0.001)
    assert bench.machines[0].seen("time") == [(1000,), (1005,), (1010,)]


def test_the_first_result_position_is_the_furthest_in_the_results_whatever_the_store_says():
    bench = Bench()
    bench.append_result(result(3, 0, 4))
    bench.append_result(result(4, 0, 2, is_last=False))
    bench.append_result(result(3, 0, 4))
    bench.shared.log_id = bench.log.topic_id("q.frames")
    bench.shared.put_result_position(ResultPosition(9, 9))
    bench.loop()
    assert bench.machines[0].start == ResultPosition(4, 2)


def test_without_results_a_machine_starts_at_the_beginning():
    bench = Bench()
    bench.loop()
    assert bench.machines[0].start == ResultPosition(0, 0)


def test_the_result_position_comes_from_the_store():
    bench = Bench()
    loop = bench.loop()
    bench.shared.put_result_position(ResultPosition(2, 5))
    bench.clock.sleep(0.1)
    loop.step(0)
    loop.step(0)
    assert bench.machines[0].seen("result_position") == [(ResultPosition(2, 5),)]


def test_results_are_put_into_the_store_a_few_times_in_a_while_the_last_soon():
    bench = Bench(Role.SINK)
    bench.prepare = lambda machine: setattr(machine, "answer", lambda r: emits(Topic.RESULTS, result(r.epoch, 0, 1)))
    loop = bench.loop()
    stored = []
    for number in range(40):
        if number < 30:
            bench.append(FRAMES, barrier(number))
        loop.step(0)
        bench.clock.sleep(0.001)
        stored.append(bench.shared.result_position())
    assert stored[-1] == ResultPosition(30, 0)
    assert 2 <= len({*stored}) <= 40 // PUBLISH_MS + 2


def test_a_result_position_of_an_earlier_log_in_the_store_does_not_count():
    bench = Bench()
    loop = bench.loop()
    right, bench.shared.log_id = bench.shared.log_id, "another log"
    bench.shared.put_result_position(ResultPosition(2, 5))
    bench.shared.log_id = right
    bench.clock.sleep(0.1)
    loop.step(0)
    assert bench.machines[0].seen("result_position") == []


@pytest.mark.parametrize(("knows", "silence_ms"), [(False, UNTOLD_MS), (True, SILENCE_MS)])
def test_with_a_silent_store_the_result_position_comes_from_the_results(knows, silence_ms):
    bench = Bench()
    if knows:
        bench.shared.put_result_position(ResultPosition(0, 0))
    loop = bench.loop()
    bench.append_result(result(0, 0, 4))
    loop.step(0)
    assert bench.machines[0].seen("result_position") == []
    bench.clock.sleep(silence_ms / 1000)
    for _ in range(3):
        loop.step(0)
    assert bench.machines[0].seen("result_position") == [(ResultPosition(1, 0),)]
    bench.append_result(result(1, 0, 4))
    bench.clock.sleep(silence_ms / 1000)
    for _ in range(3):
        loop.step(0)
    assert bench.machines[0].seen("result_position") == [(ResultPosition(1, 0),), (ResultPosition(2, 0),)]


def test_trims_reach_the_log():
    bench = Bench()
    bench.append(FRAMES, barrier(0), barrier(1), barrier(2))
    loop = bench.loop()
    bench.machines[0].trims = [Trim(Topic.FRAMES, 0, 2)]
    bench.shared.put_result_position(ResultPosition(1, 0))
    bench.clock.sleep(TRIM_MS / 1000)
    loop.step(0)
    assert bench.log.bounds(FRAMES) == Bounds(2, 3)


def test_a_rewind_reads_a_topic_again_from_its_start():
    bench = Bench()
    asked = []

    def rewind_once(record: object) -> list:
        if record == barrier(1) and not asked:
            asked.append(record)
            return [Rewind(Topic.FRAMES)]
        return []

    bench.prepare = lambda machine: setattr(machine, "answer", rewind_once)
    bench.append(FRAMES, barrier(0), barrier(1), barrier(2))
    loop = bench.loop()
    for _ in range(3):
        loop.step(0)
    assert bench.machines[0].records() == [barrier(e) for e in (0, 1, 0, 1, 2)]


def test_what_waited_of_a_topic_when_it_was_rewound_comes_only_in_its_turn():
    bench = Bench(Role.LOGICAL_AND)
    bench.prepare = lambda machine: setattr(
        machine, "answer", lambda record: [Rewind(Topic.PARTIALS)] if record == barrier(0) else []
    )
    bench.append(PARTIALS, partial(0))
    loop = bench.loop()
    loop.step(0)
    bench.append(FRAMES, barrier(0))
    bench.append(PARTIALS, partial(1))
    for _ in range(3):
        loop.step(0)
    read = [call[:3] for call in bench.machines[0].seen("record")]
    assert read == [(Topic.PARTIALS, 0, 0), (Topic.FRAMES, 0, 0), (Topic.PARTIALS, 0, 0), (Topic.PARTIALS, 0, 1)]


def test_a_record_that_cannot_be_read_ends_the_loop_and_is_named():
    bench = Bench()
    bench.append(FRAMES, barrier(0))
    bench.append_bytes(FRAMES, b"no record")
    loop = bench.loop()
    with pytest.raises(WireError, match=r"q\.frames\[0\] offset 1: "):
        loop.step(0)


def test_a_lost_append_ends_the_life():
    bench = Bench()
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.PARTIALS, partial(0)))
    bench.log.fate_of = lambda target: Fate.LOST if target == PARTIALS else Fate.LANDS
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    with pytest.raises(AmbiguousAppend):
        loop.step(0)


def test_transactions_are_committed_at_the_end_of_a_step():
    bench = Bench(transactional_id="role")
    visible = []

    def answer(_: object) -> list:
        visible.append(len(bench.log.records(PARTIALS)))
        return emits(Topic.PARTIALS, partial(0))

    bench.prepare = lambda machine: setattr(machine, "answer", answer)
    bench.append(FRAMES, barrier(0), barrier(1))
    bench.loop().step(0)
    assert visible == [0, 0]
    assert len(bench.log.records(PARTIALS)) == 2


def test_a_closed_loop_aborts_its_transaction():
    bench = Bench(transactional_id="role")
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: [*emits(Topic.PARTIALS, partial(0)), fail()])

    def fail() -> Emit:
        raise AmbiguousAppend("broken on purpose")

    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    with pytest.raises(AmbiguousAppend):
        loop.step(0)
    loop.close()
    assert not bench.log.records(PARTIALS)


def test_a_second_instance_fences_the_first():
    bench = Bench(transactional_id="role")
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.PARTIALS, partial(0)))
    first = bench.loop()
    bench.loop()
    bench.append(FRAMES, barrier(0))
    with pytest.raises(Fenced):
        first.step(0)


@pytest.mark.parametrize("transactional_id", [None, "role"])
def test_the_sink_moves_the_result_position_when_results_are_readable(transactional_id):
    bench = Bench(Role.SINK, transactional_id)
    bench.prepare = lambda machine: setattr(
        machine,
        "answer",
        lambda _: emits(Topic.RESULTS, result(0, 0, 4, produced_ms=400), result(1, 0, 2, is_last=False)),
    )
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    loop.step(0)
    assert bench.machines[0].seen("result_position") == [(ResultPosition(1, 2),)]
    assert bench.shared.result_position() == ResultPosition(1, 2)
    assert len(bench.log.records(RESULTS)) == 2
    assert value_of(bench.metrics.tuples) == 0, "those are put into frames, maybe in the same process"
    assert value_of(bench.metrics.answered_tuples) == 6
    assert value_of(bench.metrics.matches) == 12
    assert bench.metrics.latency.recent_ms(1.0, bench.clock.monotonic_ms()) >= 600


def test_a_result_that_was_not_acknowledged_moves_nothing():
    bench = Bench(Role.SINK)
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.RESULTS, result(0, 0, 4)))
    bench.log.fate_of = lambda target: Fate.LANDS_UNKNOWN if target == RESULTS else Fate.LANDS
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    with pytest.raises(AmbiguousAppend):
        loop.step(0)
    assert bench.shared.result_position() is None
    bench.log.fate_of = lambda _: Fate.LANDS
    bench.loop()
    assert bench.machines[1].start == ResultPosition(1, 0)


def test_json_results_already_out_are_not_written_again():
    bench = Bench(Role.SINK, result_writer=JsonWriter())
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.RESULTS, result(0, 0, 4)))
    bench.append(FRAMES, barrier(0))
    bench.loop().step(0)
    whole = bench.log.records(RESULTS)[:]
    assert len(whole) == 4
    again = Bench(Role.SINK, result_writer=JsonWriter())
    again.prepare = bench.prepare
    for record in whole[:2]:
        again.append_bytes(RESULTS, record.value, dict(record.headers))
    again.append(FRAMES, barrier(0))
    again.loop().step(0)
    assert again.machines[0].start == ResultPosition(0, 0)
    assert [r.value for r in again.log.records(RESULTS)] == [r.value for r in whole]


class Lines(RowsWriter):
    """A form of results with a message a row."""

    form = ResultForm("lines", b"text/plain", "a line")

    def values(self, rows):
        return [json.dumps(row).encode() for row in rows.to_pylist()]


@pytest.mark.parametrize("written", range(8))
def test_rows_already_out_are_not_written_again(written):
    """Three probes of one, three and two rows; a crash may come between any two messages."""
    rows = pa.RecordBatch.from_pydict({"probe_seq": [0, 1, 1, 1, 3, 3], "right_seq": [9, 8, 7, 6, 5, 4]})
    found = Result(0, 0, 4, True, rows, np.array([1000]), np.array([4], np.uint32))
    then = Result(1, 0, 1, True, rows.slice(0, 0), np.array([1000]), np.array([1], np.uint32))
    bench = Bench(Role.SINK, result_writer=Lines())
    both = [*emits(Topic.RESULTS, found), *emits(Topic.RESULTS, then)]
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: both)
    bench.append(FRAMES, barrier(0))
    bench.loop().step(0)
    whole = bench.log.records(RESULTS)[:]
    assert [r.value for r in whole] == [*Lines().values(rows), b""]
    again = Bench(Role.SINK, result_writer=Lines())
    again.prepare = lambda machine: setattr(machine, "answer", lambda _: both if written < 6 else both[1:])
    for record in whole[:written]:
        again.append_bytes(RESULTS, record.value, dict(record.headers))
    again.append(FRAMES, barrier(0))
    if written < 7:
        again.loop().step(0)
    assert [r.value for r in again.log.records(RESULTS)] == [r.value for r in whole]
    chain = ResultSequence()
    twice = [dict(r.headers) for r in (*whole[:written], *whole)]
    assert sum(chain.accepts(int(each[BEGIN]), progress(each)) for each in twice) == len(whole)


def test_dead_letters_go_to_the_inputs_own_topic_with_reason_and_place():
    bench = Bench(Role.ROUTER)
    its_own = (("region", b"\xff"), ("empty", None), ("spojoin-reason", b"late"))
    letter = DeadLetter(0, 3, 17, 2, "null", "distance is null", b"the message", b"its key", its_own, 12)
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: [Emit(Topic.DEAD, 0, letter)])
    bench.append(FRAMES, barrier(0))
    bench.loop().step(0)
    (record,) = bench.log.records(LogPartition("in.trips.dlq", 0))
    assert (record.value, record.key) == (b"the message", b"its key")
    assert len(record.headers) == len(dict(record.headers))
    assert dict(record.headers) == {
        "region": b"\xff",
        "empty": None,
        "spojoin-reason": b"null",
        "spojoin-detail": b"distance is null",
        "spojoin-source-topic": b"in.trips",
        "spojoin-source-partition": b"3",
        "spojoin-source-offset": b"17",
        "spojoin-source-row": b"2",
        "spojoin-source-timestamp-ms": b"12",
    }


def test_added_partitions_are_read():
    bench = Bench(Role.SINK)
    loop = bench.loop()
    added = len(TOPICS.inputs_of(Topic.MATCHES))
    bench.log.create_topics({"q.matches": added + 1})
    bench.append(LogPartition("q.matches", added), barrier(7))
    loop.step(0)
    assert bench.machines[0].records() == []
    bench.clock.sleep(DISCOVERY_MS / 1000)
    loop.step(0)
    loop.step(0)
    assert bench.machines[0].records() == [barrier(7)]


def test_a_wiped_store_is_filled_again():
    bench = Bench(Role.SINK)
    bench.prepare = lambda machine: setattr(machine, "answer", lambda _: emits(Topic.RESULTS, result(0, 0, 4)))
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    loop.step(0)
    bench.store.clear()
    bench.clock.sleep(1.0)
    loop.step(0)
    assert bench.shared.result_position() == ResultPosition(1, 0)
    assert bench.store.get("spojoin:v1:q:progress:x-0")["q.frames/0"] == "1"
    assert bench.store.get("spojoin:v1:q:status:x-0")["role"] == "sink"


def test_finish_flushes_what_was_emitted():
    bench = Bench(Role.SINK, "role")
    bench.prepare = lambda machine: setattr(machine, "on_catching_up", emits(Topic.RESULTS, result(0, 0, 4)))
    loop = bench.loop()
    loop.step(0)
    loop.finish()
    loop.close()
    assert len(bench.log.records(RESULTS)) == 1
    assert bench.shared.result_position() == ResultPosition(1, 0)
