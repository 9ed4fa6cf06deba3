"""The harness itself: it accepts a cluster that answers by the oracle, and reports the errors of any other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.machine import ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.simulate.followers import FramesFollower, ResultsFollower
from spojoin.simulate.memorylog import SimulatedLog
from spojoin.simulate.packs import ALL_APART, ALONE
from spojoin.simulate.scenario import draw
from spojoin.simulate.verdict import Wrong, judge_output
from spojoin.simulate.world import World
from spojoin.wire.records import Barrier, Result
from tests.support.frames import make_frame
from tests.support.naive_cluster import OracleSink, Silent, wiring

NOTHING = np.empty(0, np.int64)
COUNTING = next(seed for seed in range(100) if draw(seed).query.output == "count" and not draw(seed).query.is_self)


def run(seed, sink=OracleSink):
    scenario = replace(draw(seed), packing=ALL_APART, repacks=(), instances=ALONE)
    outcome = World(scenario, wiring(scenario, sink)).run()
    judge_output(scenario, outcome)
    return outcome


@pytest.mark.parametrize("seed", range(12))
def test_a_cluster_that_answers_by_the_oracle_passes(seed):
    outcome = run(seed)
    assert outcome.results.rows or not outcome.frames.accepted or draw(seed).query.output == "pairs"


def test_a_seed_runs_the_same_way_twice():
    first, second = run(3), run(3)
    assert (first.steps, first.faults, first.results.rows) == (second.steps, second.faults, second.results.rows)


class Miscounts(OracleSink):
    def answer(self, rows):
        return [row | {"matches": row["matches"] + (row["seq"] == 7)} for row in rows]


class Forgets(OracleSink):
    def answer(self, rows):
        return [row for row in rows if row["seq"] != 5]


class Repeats(OracleSink):
    def answer(self, rows):
        return [row for row in rows for _ in range(1 + (row["seq"] == 5))]


class TrimsBeyondTheEnd(OracleSink):
    def on_result_position(self, result_position):
        return [Trim(Topic.RUNS, 0, 5)]


class NeverAnswers(Silent):
    def __init__(self, *_):
        pass


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (Miscounts, "result row 7 is"),
        (Forgets, "result row 5 is"),
        (Repeats, "result row 6 is"),
        (NeverAnswers, "lacks|result row 0 is None"),
    ],
)
def test_a_wrong_answer_is_reported_with_its_row(sink, message):
    with pytest.raises(Wrong, match=message):
        run(COUNTING, sink)


def test_a_trim_beyond_the_end_is_a_bug():
    with pytest.raises(AssertionError, match="beyond its end"):
        run(COUNTING, TrimsBeyondTheEnd)


# --- followers and log ------------------------------------------------------------------------------------------------


def frame(epoch, number, seq, previous_link, link):
    return make_frame(epoch=epoch, frame_id=number, first_seq=seq, count=1, previous_link=previous_link, link=link)


def test_frames_count_by_epoch_number_seq_and_link():
    log = FramesFollower()
    kept = [frame(0, 0, 0, 0, 11), frame(0, 1, 1, 11, 12), frame(1, 2, 2, 12, 13)]
    records = [
        Barrier(0, "a"),
        kept[0],
        kept[0],  # twice
        frame(0, 1, 1, 99, 12),  # built on something else
        kept[1],
        Barrier(1, "b"),
        frame(0, 2, 2, 12, 13),  # of a router that was replaced
        Barrier(0, "late"),
        kept[2],
    ]
    for record in records:
        log.hear(record)
    assert log.accepted == kept


def result(number, begin, end, is_last):
    rows = pa.record_batch({"seq": pa.array(range(begin, end), pa.int64())})
    return Result(number, begin, end, is_last, rows, NOTHING, NOTHING)


def test_results_count_where_they_continue_exactly():
    results = ResultsFollower()
    for record in [result(0, 0, 2, False), result(0, 0, 3, True), result(0, 1, 3, True), result(0, 2, 3, True)]:
        results.hear(record)
    assert [row["seq"] for row in results.rows] == [0, 1, 2]
    assert results.result_position == ResultPosition(1, 0)
    assert results.repeated == 2


def test_a_trimmed_log_keeps_its_offsets():
    log = SimulatedLog(lambda _, record: record)
    log.create(Topic.RUNS, 1)
    for record in "abcd":
        log.append((Topic.RUNS, 0), record)
    log.trim((Topic.RUNS, 0), 3)
    log.trim((Topic.RUNS, 0), 1)
    partition = log.partitions[Topic.RUNS, 0]
    assert (partition.earliest, partition.end, partition.records) == (3, 4, ["d"])
    assert log.retained(Topic.RUNS) == 1
