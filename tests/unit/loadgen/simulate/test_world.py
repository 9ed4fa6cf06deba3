"""The harness itself: it accepts a cluster that answers by the oracle, and reports the errors of any other."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from loadgen.simulate.process import ALL_APART, ALONE
from loadgen.simulate.scenario import draw
from loadgen.simulate.verdict import Wrong, judge_output
from loadgen.simulate.world import QuickRandom, World
from spojoin.protocol.machine import Trim
from spojoin.protocol.topology import Topic
from tests.support.naive_cluster import OracleSink, Silent, wiring

COUNTING = next(
    seed for seed in range(100) if draw(seed).query.results.output == "count" and not draw(seed).query.is_self
)


def run(seed, sink=OracleSink):
    scenario = replace(draw(seed), packing=ALL_APART, repacks=(), instances=ALONE, sinks=1)
    outcome = World(scenario, wiring(scenario, sink)).run()
    judge_output(scenario, outcome)
    return outcome


@pytest.mark.parametrize("seed", range(12))
def test_a_cluster_that_answers_by_the_oracle_passes(seed):
    outcome = run(seed)
    assert outcome.results.rows or not outcome.frames.accepted or draw(seed).query.results.output == "pairs"


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


def test_choices_are_those_of_the_standard_generator():
    fast, standard = QuickRandom("a seed"), Random("a seed")
    assert [fast.choice(range(n)) for n in range(1, 400)] == [standard.choice(range(n)) for n in range(1, 400)]
    assert fast.random() == standard.random()
    with pytest.raises(IndexError):
        fast.choice([])
