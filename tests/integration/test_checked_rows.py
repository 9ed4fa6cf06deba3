"""The checker of an output of rows: it accepts right results as exact, and finds each planted error.

A plain Python loop over the rows gives the right results. Spark runs in this process, without a broker.
"""

import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest

from loadgen.check import rows as input_rows
from loadgen.check.history import CheckPlan, CheckWay, by_history
from loadgen.check.judging import ProbeSample, settle_rejects
from loadgen.check.reading import read_rows
from loadgen.check.row_check import RowCheck
from loadgen.check.verdict import Verdict
from loadgen.load import spark
from loadgen.window import window_begin, window_of
from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query
from tests.support.checked import INPUT, OUTPUT, answer_headers, as_frame, as_message
from tests.support.long import first_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COUNT, SITES = 150, ("N", "S", "", None)
ANSWERED = 7

SELF = """
name: q
streams:
  s: {schema: {id: long, site: string, a: int, b: double, note: string}}
sql: |
  SELECT l.id, r.id AS other, l.site || '-' || r.note AS both_texts, r.b, l.a - r.a AS gap, l.seq AS l_seq,
         r.seq AS r_seq
  FROM s AS l JOIN s AS r ON l.site = r.site AND l.a > r.a AND l.b <= r.b AND (l.note <> r.note OR l.a + r.a > 5)
  WHERE l.a <> 2 AND r.note IS NOT NULL
  WINDOW AS (SLIDE INTERVAL '5' ON '40')
order: arrival
"""
CROSS = """
name: q
streams:
  s: {schema: {id: long, site: string, a: int, b: double, note: string, at: timestamp(s)}, time: at}
  u: {schema: {id: long, site: string, a: int, b: double, note: string, at: timestamp(s)}, time: at}
sql: |
  SELECT l.id, r.id AS other, l.site || '-' || r.note AS both_texts, r.b, l.a - r.a AS gap, l.seq AS l_seq,
         r.seq AS r_seq
  FROM s AS l JOIN u AS r ON l.site = r.site AND l.a > r.a AND l.b <= r.b AND (l.note <> r.note OR l.a + r.a > 5)
  WHERE l.a <> 2 AND r.note IS NOT NULL
  WINDOW AS (SLIDE INTERVAL '5 s' ON '40 s')
order: event_time
"""
TYPES = [pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.int32(), pa.int64(), pa.int64()]
NAMES = ["id", "other", "both_texts", "b", "gap", "l_seq", "r_seq"]


@pytest.fixture(scope="module")
def session():
    running = spark.start(cores=1)
    yield running
    running.stop()


def drawn(seed):
    rng = np.random.default_rng(seed)
    values = [None, math.nan, 0.0, -0.0, 1.5]
    return [
        {
            "id": i + 1000 * seed,
            "site": SITES[rng.integers(0, 4)],
            "a": None if rng.random() < 0.05 else int(rng.integers(0, 5)),
            "b": values[rng.integers(0, 5)],
            "note": (None, "x", "y")[rng.integers(0, 3)],
            "at": i // 2,
        }
        for i in range(COUNT)
    ]


def at_most(a, b):
    """Compare doubles: NaN is the greatest, and equal to itself."""
    return math.isnan(b) or a <= b


def is_pair(left, right):
    if None in (left["site"], right["site"], left["a"], right["a"], left["b"], right["b"]):
        return False
    if left["site"] != right["site"] or left["a"] <= right["a"] or not at_most(left["b"], right["b"]):
        return False
    return (left["note"] is not None and left["note"] != right["note"]) or left["a"] + right["a"] > 5


class Case:
    """Inputs, and right results as (probe, row) that a test may damage."""

    def __init__(self, text):
        self.query, self.is_self = parse_query(text), text is SELF
        self.inputs = [drawn(1)] if self.is_self else [drawn(1), drawn(2)]
        self.answered = 0
        self.rows = list(self._rows())

    def _ordered(self):
        """(row, whether it may be a left row, a right row), in number order."""
        if self.is_self:
            return [(row, True, True) for row in self.inputs[0]]
        both = [(row["at"], stream, row) for stream, rows in enumerate(self.inputs) for row in rows]
        return [(row, stream == 0, stream == 1) for _, stream, row in sorted(both, key=lambda each: each[:2])]

    def _members(self, side, row):
        if self.is_self:
            return side[window_of(len(side), 40, 5)]
        return [each for each in side if each[1]["at"] >= window_begin(row["at"], 40, 5)]

    def _rows(self):
        sides = [], []
        for row, may_left, may_right in self._ordered():
            passes = may_left and row["a"] not in (2, None), may_right and row["note"] is not None
            if not any(passes):
                continue
            me = (self.answered, row)
            pairs = [(left, me) for left in self._members(sides[0], row)] if passes[1] else []
            pairs += [(me, right) for right in self._members(sides[1], row)] if passes[0] else []
            for left, right in sorted(pairs, key=lambda pair: (pair[0][0], pair[1][0])):
                if is_pair(left[1], right[1]):
                    yield self.answered, self._selected(left, right)
            for side, passed in zip(sides, passes, strict=True):
                if passed:
                    side.append(me)
            self.answered += 1

    def _selected(self, left, right):
        (l_seq, l_row), (r_seq, r_row) = left, right
        text = None if r_row["note"] is None else f"{l_row['site']}-{r_row['note']}"
        return [l_row["id"], r_row["id"], text, r_row["b"], l_row["a"] - r_row["a"], l_seq, r_seq]

    def table(self, frame):
        held = [row for probe, row in self.rows if probe // ANSWERED == frame]
        columns = zip(*held, strict=True) if held else [[] for _ in NAMES]
        return pa.table([pa.array(list(c), t) for c, t in zip(columns, TYPES, strict=True)], NAMES)

    def messages(self):
        """Frames of ANSWERED tuples, every third sent twice."""
        for frame in range(-(-self.answered // ANSWERED)):
            end = min(ANSWERED, self.answered - ANSWERED * frame)
            headers = answer_headers(frame, end)
            for _ in range(1 + (frame % 3 == 0)):
                yield {"value": as_message(self.table(frame)), "headers": headers}

    def read(self, session, verdict, *, for_history=False):
        inputs = []
        for stream, rows in zip(self.query.inputs, self.inputs, strict=True):
            values = [json.dumps(row).replace("NaN", '"NaN"').encode() for row in rows]
            found = as_frame(session, [{"value": value} for value in values], INPUT).select(*input_rows.MESSAGE)
            inputs.append(read_rows(found, stream, [], needs_time=self.query.needs_time, for_history=for_history))
        return settle_rejects(inputs, [{} for _ in inputs], self.query, verdict)

    def results(self, session, messages=None):
        return as_frame(session, list(self.messages() if messages is None else messages), OUTPUT)

    def verdict(self, session, messages=None, sample=None):
        verdict = Verdict("q")
        inputs = self.read(session, verdict)
        return RowCheck(session, self.query, self.results(session, messages), verdict).run(inputs, ProbeSample(sample))

    def by_history(self, session, messages=None, way=CheckWay.HISTORY):
        inputs = self.read(session, Verdict("q"), for_history=True)
        return by_history(session, self.query, inputs, self.results(session, messages), CheckPlan(way=way))


@pytest.mark.parametrize("text", [SELF, CROSS], ids=["self", "cross"])
def test_right_rows_are_exact(session, text):
    case = Case(text)
    verdict = case.verdict(session)
    assert verdict.is_exact, verdict
    assert verdict.tuples == verdict.probes_checked == case.answered
    assert verdict.matches == len(case.rows) > 100
    assert verdict.resent == sum(frame % 3 == 0 for frame in range(-(-case.answered // ANSWERED)))
    assert {row[3] for _, row in case.rows} > {0.0, 1.5}


def doubled(rows):
    rows.insert(30, rows[30])


def swapped(rows):
    at = next(i for i in itertools.count(30) if rows[i][0] == rows[i + 1][0])
    rows[at], rows[at + 1] = rows[at + 1], rows[at]


def with_value(column, value):
    def damage(rows):
        at = next(i for i, (_, row) in enumerate(rows) if i > 30 and row[column] != value)
        rows[at][1][column] = value

    return damage


DAMAGES = {
    "missing": (lambda rows: rows.pop(40), 1, 0, 0, 0),
    "doubled": (doubled, 0, 0, 1, 0),
    "swapped": (swapped, 0, 0, 0, 2),
    "another number": (with_value(1, 7), 1, 1, 0, 0),
    "NULL for a text": (with_value(2, None), 1, 1, 0, 0),
    "another double": (with_value(3, 0.25), 1, 1, 0, 0),
}


@pytest.mark.parametrize(("damage", "missing", "false", "again", "misordered"), DAMAGES.values(), ids=DAMAGES)
def test_a_planted_error_is_found(session, damage, missing, false, again, misordered):
    case = Case(SELF)
    damage(case.rows)
    verdict = case.verdict(session)
    assert not verdict.is_exact
    assert verdict.rows_expected - verdict.rows_right == missing
    assert (verdict.false_positives, verdict.duplicates, verdict.misordered) == (false, again, misordered)
    assert "expected" in verdict.first_difference


def test_missing_records_are_found(session):
    case = Case(CROSS)
    messages = list(case.messages())
    last = messages[-1]["headers"]
    verdict = case.verdict(session, [message for message in messages if message["headers"] != last])
    assert not verdict.is_exact
    assert verdict.completeness < 1
    assert "no results" in verdict.first_difference
    assert "missing" in case.verdict(session, messages[:4] + messages[6:]).first_difference
    assert case.verdict(session, []).completeness == 0


def test_a_column_of_another_type_is_found(session):
    case = Case(SELF)
    messages = list(case.messages())
    wrong = case.table(4).cast(case.table(4).schema.set(4, pa.field("gap", pa.int64())))
    at = next(i for i, message in enumerate(messages) if message["value"] == as_message(case.table(4)))
    messages[at] = messages[at] | {"value": as_message(wrong)}
    verdict = case.verdict(session, messages)
    assert not verdict.is_exact
    assert "gap int64" in verdict.first_difference


def test_a_sample_checks_some_probes(session):
    case = Case(SELF)
    verdict = case.verdict(session, sample=20)
    assert verdict.is_exact
    assert 20 <= verdict.probes_checked < 20 + 2 * ANSWERED  # and the last record
    assert 0 < verdict.matches < len(case.rows)


@pytest.mark.parametrize("text", [SELF, CROSS], ids=["self", "cross"])
def test_a_history_gives_every_row(session, text):
    case = Case(text)
    found = case.by_history(session).rows
    assert found.is_same, found
    assert (found.expected, found.found, found.right) == (len(case.rows),) * 3


@pytest.mark.parametrize("name", first_of(3, DAMAGES))
def test_a_history_shows_a_planted_error(session, name):
    damage, missing, false, again, misordered = DAMAGES[name]
    case = Case(SELF)
    damage(case.rows)
    found = case.by_history(session).rows
    assert not found.is_same
    assert (found.expected - found.right, found.surplus, found.misordered) == (missing, false + again, misordered)
    assert "expected" in found.first


def test_a_query_that_no_history_answers_is_told_in_a_sentence(session):
    case = Case(SELF)
    case.query = parse_query(SELF + "layout: {name: split_join}\n")
    assert "divide a history by its order alone" in case.by_history(session, way=None).refused
    with pytest.raises(ConfigurationError, match="divide a history by its order alone"):
        case.by_history(session)
