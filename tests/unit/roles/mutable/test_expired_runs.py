"""Runs of batches that were made or have expired are not waited for, whoever restarts (rules P8, P9)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.machine import START, Emit, ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.mutable.machine import Joiner
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Batch, Frame, Rows, Run

QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b WINDOW AS (SLIDE INTERVAL '1' ON '8')\n"
)
ROWS, FRAME_ROWS, BATCH_ROWS = 48, 4, 8


@pytest.fixture(scope="module")
def frames():
    """Twelve frames that seal six batches."""
    config = RouterConfig(
        "r", 1, frame_tuples=FRAME_ROWS, batch_tuples=BATCH_ROWS, handover_frames=1, credits_frames=1 << 20
    )
    router = RouterMachine(QUERY, START, config)
    router.on_inputs([(0, 0)])
    (barrier,) = [action.record for action in (*router.on_caught_up(), *router.on_chosen())]
    list(router.on_record(Topic.FRAMES, 0, 0, barrier))
    numbers = np.arange(ROWS, dtype=np.int64)
    nothing = np.zeros(ROWS, np.int64)
    rows = Rows(numbers, nothing, ROWS, (numbers * 7 % 11, numbers * 5 % 13), None, pa.array(numbers), nothing)
    return [action.record for action in router.on_rows(0, 0, rows) if isinstance(action.record, Frame)]


def runs(joiner, frames):
    found = [action.record for frame in frames for action in joiner.on_record(Topic.FRAMES, 0, 0, frame)]
    return [decode(encode(record)) for record in found if isinstance(record, Run)]


def numbers(found, predicate=0):
    return [run.batch_id for run in found if run.predicate == predicate and not run.is_empty]


def test_runs_of_batches_that_had_expired_where_results_end_are_not_sent_again(frames):
    sealed = numbers(runs(Joiner(QUERY, (0,), START), frames))
    assert sealed == list(range(6))
    out = ResultPosition(9, 0)
    live = frames[out.frame_id - 1].slices[0].live_batch
    assert live > 0
    again = runs(Joiner(QUERY, (0,), out), frames)
    assert numbers(again) == sealed[live:]
    assert [run.batch_id for run in again if run.is_empty] == sealed[:live], "others may have sent theirs"


def test_a_joiner_that_hears_of_results_later_sends_no_run_of_an_expired_batch(frames):
    joiner = Joiner(QUERY, (0,), START)
    assert numbers(runs(joiner, frames[:3])) == [0]
    joiner.on_result_position(ResultPosition(9, 0))
    assert numbers(runs(joiner, frames[3:8])) == []
    assert numbers(runs(joiner, frames[8:9])) == list(range(frames[8].slices[0].live_batch, 4))


def give(machine, found, offset=0):
    """The machine's batches."""
    given = [machine.on_record(Topic.RUNS, 0, offset + i, run) for i, run in enumerate(found)]
    return [action.record for actions in given for action in actions if isinstance(action, Emit)]


def test_a_run_of_an_expired_batch_waits_for_no_joiner_whose_log_begins_behind_it(frames):
    """One joiner read the log before it was trimmed, the other one restarts after it; the stream brings no more."""
    machine = PermutationMachine(QUERY, START)
    early = runs(Joiner(QUERY, (0,), START), frames[:4])
    assert numbers(early) == [0, 1]
    assert give(machine, early) == []
    assert machine.on_result_position(START) == []
    late = runs(Joiner(QUERY, (1,), START), frames[4:5])
    assert [(run.batch_id, run.is_empty) for run in late] == [(1, True)]
    assert give(machine, late, len(early)) == []
    assert machine.state_tuples() == 0
    assert machine.on_result_position(START) == [Trim(Topic.RUNS, 0, len(early) + 1)]


def test_a_batch_in_which_a_log_begins_was_made_long_ago(frames):
    late = runs(Joiner(QUERY, (1,), START), frames[1:4])
    assert [(run.batch_id, run.is_empty) for run in late] == [(0, True), (1, False)]


def test_batches_are_made_of_the_runs_that_all_have(frames):
    machine = PermutationMachine(QUERY, START)
    found = give(machine, runs(Joiner(QUERY, (1,), START), frames[2:]) + runs(Joiner(QUERY, (0,), START), frames))
    assert [batch.batch_id for batch in found] == [1, 2, 3, 4, 5]
    assert all(isinstance(batch, Batch) for batch in found)


def test_runs_of_batches_that_results_have_passed_are_not_kept(frames):
    """Some runs of batch 0 are lost, and the topic of batches is empty."""
    machine = PermutationMachine(QUERY, START)
    left = [run for run in runs(Joiner(QUERY, (0, 1), START), frames) if run.batch_id or run.predicate]
    assert [batch.batch_id for batch in give(machine, left)] == [1, 2, 3, 4, 5]
    last = max(left, key=lambda run: run.live_batches)
    assert last.live_batches[0] > 1
    assert machine.on_result_position(ResultPosition(last.frame_id, 0))[:1] != [Trim(Topic.RUNS, 0, len(left))]
    assert machine.on_result_position(ResultPosition(last.frame_id + 1, 0)) == [
        Trim(Topic.RUNS, 0, sum(run.batch_id < last.live_batches[0] for run in left))
    ]
    assert machine.state_tuples() == 0
