"""Answerers together emit what one joiner and one logical AND emit, and any of them stands in for any other exactly."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.answerer import AnswererTurn, answerer_of
from spojoin.protocol.grid import grid_of
from spojoin.protocol.machine import START, Emit, ResultPosition
from spojoin.protocol.packed_machine import Fellow, pack_of
from spojoin.protocol.packing import ANSWERER, edge_of
from spojoin.protocol.stand_in import PATIENCE_MS
from spojoin.protocol.topology import Role, Topic
from spojoin.query.load import parse_query
from spojoin.roles.logical_and.answering import AnsweringAnd
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.answering import READS, AnsweringJoiner
from spojoin.roles.mutable.machine import Joiner
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.codec import encode
from spojoin.wire.records import Frame, Part, Partial, Rows, Run

QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
    "output: pairs\n"
)
ROWS, FRAME_ROWS, BATCH_ROWS = 120, 8, 16
ANSWERERS = 3


@pytest.fixture(scope="module")
def log():
    """The records that a router writes, with frames of three workers in one column."""
    config = RouterConfig(
        "r", ANSWERERS, frame_tuples=FRAME_ROWS, batch_tuples=BATCH_ROWS, handover_frames=1, credits_frames=1 << 20
    )
    router = RouterMachine(QUERY, START, replace(config, columns=1))
    router.on_inputs([(0, 0)])
    found = [action.record for action in (*router.on_caught_up(), *router.on_chosen())]
    list(router.on_record(Topic.FRAMES, 0, 0, found[0]))
    numbers, rng = np.arange(ROWS, dtype=np.int64), np.random.default_rng(5)
    columns = tuple(rng.integers(0, 9, ROWS) for _ in range(2))
    rows = Rows(numbers, np.zeros(ROWS, np.int64), ROWS, columns, None, pa.array(numbers), np.zeros(ROWS, np.int64))
    return found + [action.record for action in router.on_rows(0, 0, rows)]


def batches(log):
    """The batches that follow from the log."""
    permutation = PermutationMachine(QUERY, START)
    runs = [record for record in given(Joiner(QUERY, range(2), START), log) if isinstance(record, Run)]
    return [action.record for run in runs for action in permutation.on_record(Topic.RUNS, 0, 0, run)]


def given(machine, log, topic=Topic.FRAMES):
    return [
        action.record
        for offset, record in enumerate(log)
        for action in machine.on_record(topic, 0, offset, record)
        if isinstance(action, Emit)
    ]


def answerer(worker):
    """An answerer without its PO-Join part."""
    fellows = [
        Fellow(Role.MUTABLE, AnsweringJoiner(QUERY, worker, START), reads=READS),
        Fellow(Role.LOGICAL_AND, AnsweringAnd(QUERY, START, lambda number: number)),
    ]
    return pack_of(fellows, edge_of(ANSWERER))


def parts_of(records):
    return sorted((each.frame_id, each.begin, encode(each)) for each in records if isinstance(each, Part))


def runs_of(records):
    """Runs by batch and predicate; of which frame they are named doesn't matter."""
    return {
        (run.batch_id, run.predicate): encode(replace(run, frame_id=0, live_batches=()))
        for run in records
        if isinstance(run, Run) and not run.is_empty
    }


def expected(log):
    """What one joiner and one logical AND say of the mutable part."""
    joined = given(Joiner(QUERY, range(2), START), log)
    logical_and = LogicalAndMachine(QUERY, START)
    given(logical_and, log)
    partials = [record for record in joined if isinstance(record, Partial)]
    parts = [
        action.record
        for partial in partials
        for action in logical_and.on_record(Topic.PARTIALS, partial.predicate, 0, partial)
    ]
    return parts_of(parts), runs_of(joined)


def stand_in(machine, now_ms):
    return [action.record for action in machine.on_time(now_ms) if isinstance(action, Emit)]


def test_answerers_divide_frames_and_batches_and_say_the_same(log):
    said = [given(answerer(worker), log) for worker in range(ANSWERERS)]
    parts, runs = expected(log)
    assert sorted(part for each in said for part in parts_of(each)) == parts
    assert {key: run for each in said for key, run in runs_of(each).items()} == runs
    for worker, each in enumerate(said):
        assert {frame_id % ANSWERERS for frame_id, *_ in parts_of(each)} == {worker}
        assert {batch_id % ANSWERERS for batch_id, _ in runs_of(each)} == {worker}


def test_no_partial_leaves_an_answerer(log):
    assert not [record for record in given(answerer(0), log) if isinstance(record, Partial)]


@pytest.mark.parametrize("alive", range(ANSWERERS))
def test_one_answerer_says_all_in_place_of_the_others_with_later_tuples_in_memory(log, alive):
    machine, (parts, runs) = answerer(alive), expected(log)
    said = given(machine, log)
    for now_ms in range(0, 9 * PATIENCE_MS, PATIENCE_MS):
        said += stand_in(machine, now_ms)
        missing = {frame_id for frame_id, *_ in parts} - {frame_id for frame_id, *_ in parts_of(said)}
        machine.on_result_position(ResultPosition(min(missing, default=0), 0))
    assert sorted(set(parts_of(said))) == parts
    assert runs_of(said) == runs


def test_a_stand_in_writes_into_the_partition_of_the_one_that_should_have_answered(log):
    machine = answerer(0)
    actions = [a for offset, r in enumerate(log) for a in machine.on_record(Topic.FRAMES, 0, offset, r)]
    stand_in(machine, 0)
    actions += machine.on_time(2 * PATIENCE_MS)
    partitions = defaultdict(set)
    for action in actions:
        if isinstance(action, Emit) and isinstance(action.record, Part):
            partitions[action.partition].add(action.record.frame_id % ANSWERERS)
    assert all(found == {number} for number, found in partitions.items())


def test_runs_of_batches_that_are_made_are_not_sent_again(log):
    machine = answerer(0)
    for number, batch in enumerate(batches(log)):
        list(machine.on_record(Topic.BATCHES, 0, number, batch))
    given(machine, log)
    stand_in(machine, 0)
    assert not [each for each in stand_in(machine, 9 * PATIENCE_MS) if isinstance(each, Run)]


def test_nothing_is_kept_that_results_cover(log):
    machine = answerer(1)
    for number, batch in enumerate(batches(log)):
        list(machine.on_record(Topic.BATCHES, 0, number, batch))
    given(machine, log)
    before = machine.state_tuples()
    last = max(record.frame_id for record in log if isinstance(record, Frame))
    machine.on_result_position(ResultPosition(last + 1, 0))
    assert machine.state_tuples() < before
    assert machine.state_tuples() <= 3 * (BATCH_ROWS + 2 * FRAME_ROWS)


def test_rows_take_frames_in_turn_and_within_a_row_the_columns_do(log):
    frame = next(record for record in log if isinstance(record, Frame))
    frames = [replace(frame, frame_id=number, workers=4, columns=2) for number in range(8)]
    assert [answerer_of(each) for each in frames] == [0, 2, 1, 3, 0, 2, 1, 3]
    assert all(answerer_of(each) in range(grid_of(each).workers) for each in frames)
    turns = [AnswererTurn(worker) for worker in range(4)]
    assert [[turn.has_frame(each) for turn in turns].count(True) for each in frames] == [1] * 8
    assert [turn.behind(frames[0]) for turn in turns] == [0, 1, 2, 3]
