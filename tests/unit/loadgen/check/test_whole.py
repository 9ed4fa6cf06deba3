"""Which way a check takes, and what its verdict says of that."""

import numpy as np
import pyarrow as pa
import pytest

from loadgen.check import history as whole
from loadgen.check.history import CheckPlan, CheckWay, WholeOutcome
from loadgen.check.judging import ProbeSample
from loadgen.check.ordered_rows import OrderedOutcome
from loadgen.check.ordering import StreamRows
from loadgen.check.verdict import Verdict
from spojoin.query.load import parse_query

TEXT = """
name: q
streams:
  s: {{schema: {{a: double}}, time: t}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '{slide}' ON '{length}')
order: event_time
output: count
"""


def rows_of(count):
    """One row a second."""
    places = (np.zeros(count, np.int64), np.arange(count), np.zeros(count, np.int64))
    return StreamRows(pa.table({}), places, np.arange(count) * 1_000_000, [None] * count, {})


PLANS = {
    "few pairs": (CheckPlan(), 10**9, False),
    "many pairs": (CheckPlan(), 10**3, True),
    "many pairs, a sample": (CheckPlan(ProbeSample(10)), 10**3, False),
    "many pairs, by the loop": (CheckPlan(way=CheckWay.LOOP), 10**3, False),
    "few pairs, by a history": (CheckPlan(way=CheckWay.HISTORY), 10**9, True),
    "few pairs, by a history, a sample": (CheckPlan(ProbeSample(10), CheckWay.HISTORY), 10**9, True),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_history_is_due_for_many_pairs_or_where_it_is_asked_for(monkeypatch, name):
    plan, most, is_due = PLANS[name]
    monkeypatch.setattr(whole, "LOOP_PAIRS", most)
    query = parse_query(TEXT.format(slide="1", length="100"))
    assert plan.needs_history(query, [rows_of(1_000)]) == is_due
    assert plan.may_need_history or not is_due


def test_the_verdict_says_what_was_checked_how():
    verdict = Verdict("q", tuples=5_000, probes_checked=100, rows_expected=100, rows_right=100)
    outcome = OrderedOutcome(expected=5_000, found=5_000, right=4_999, surplus=1, first="result row 7 is ...")
    WholeOutcome(outcome).note(verdict)
    assert verdict.checked == (
        "every one of 5,000 result rows by a history on Spark, and 100 of 5,000 probes by a nested loop"
    )
    assert (verdict.history_rows, verdict.rows_expected, verdict.rows_right) == (5_000, 5_100, 5_099)
    assert not verdict.is_exact
    assert verdict.first_difference == "a history by Spark: result row 7 is ..."


def test_a_history_that_cannot_be_leaves_its_reason():
    verdict = Verdict("q", tuples=50, probes_checked=50)
    WholeOutcome(None, "query 'q' names layout 'x'").note(verdict)
    assert verdict.checked == "50 of 50 probes by a nested loop; no history on Spark: query 'q' names layout 'x'"
    assert verdict.is_exact
