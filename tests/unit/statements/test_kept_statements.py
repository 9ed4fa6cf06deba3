"""Statements that were once answered wrongly, accepted though nothing can mean them, or ended in a traceback."""

import uuid
from datetime import datetime

import pyarrow as pa
import pytest

from tests.support.statement_draw import DrawnStatement
from tests.support.statement_oracle import StatementOracle
from tests.support.statement_streams import by_join, by_roles
from tests.support.statement_tables import ARROW, DrawnTable, Field
from tests.support.statement_verdict import by_sql, judged

TYPES = {str(kind): name for name, kind in ARROW.items()}
TABLE = pa.table(
    {
        "n": pa.array([3, 1, None, 2**53 + 1, 2], pa.int64()),
        "i": pa.array([1, 2, 3, None, 2], pa.int32()),
        "d": pa.array([1.5, 2.0**53, None, float("nan"), -0.0]),
        "m": pa.array([None, "0.10", "2.00", "1.00", "3.50"]).cast(pa.decimal128(10, 2)),
        "s": ["a", "", None, "it's", "a"],
        "none": pa.array([None] * 5, pa.string()),
        "u": pa.array([uuid.UUID(int=7).bytes, None, uuid.UUID(int=8).bytes] + [uuid.UUID(int=7).bytes] * 2, pa.uuid()),
        "at": [datetime(2024, 2, 1, 0, 0, second) for second in (30, 34, 38, 38, 41)],
    }
)
TRIPS = DrawnTable("trips", tuple(Field(f.name, TYPES[str(f.type)]) for f in TABLE.schema), "at", TABLE)
WINDOW = "WINDOW AS (SLIDE INTERVAL '1' ON '10')"


def verdict(text, answer, must_answer=True):
    """The verdict on a statement over trips, whose event time is `at`."""
    time = {"trips": "at"} if "INTERVAL '5 s'" in text else {}
    statement = DrawnStatement(text, (TRIPS,), time)
    return judged(statement, StatementOracle({"trips": TABLE}, time), must_answer, answer)


def joined(items, condition, window=WINDOW):
    """A self join of trips."""
    return f"SELECT {items} FROM trips AS l JOIN trips AS r ON {condition} {window}"


RIGHT = [
    joined("l.u, r.u AS v", "l.n < r.n"),
    joined("*", "l.u = r.u"),
    joined("*", "l.n > r.n AND l.n < 0"),
    joined("0.5 AS c, 'x' AS t", "l.i < r.i"),
    joined("l.seq, TRUE AS t", "l.i < r.i"),
    joined("l.none, r.none || 'x' AS x", "l.i < r.i"),
    joined("l.seq", "l.i < r.i AND (l.none = r.s OR r.none = 'a')"),
    joined("l.seq", "l.i < r.i AND l.seq % 2 = 0"),
    joined("l.seq", "l.i < r.i AND r.seq > 2"),
    joined("l.seq, r.seq AS b", "l.i + 0.5 <> r.d"),
    joined("l.seq, r.seq AS b", "l.m != r.d"),
    joined("l.seq, r.seq AS b", "length(l.s) <> r.d"),
    joined("r.n, l.*", "l.i < r.i"),
    joined("l.i, l.*", "l.i < r.i"),
    joined("l.seq, r.seq AS b", "CAST(l.s AS INTEGER) > 0 AND l.i < r.i"),
    joined("l.seq, r.seq AS b", "(l.s = l.i) IS NOT TRUE AND l.i < r.i"),
    joined("l.seq, r.seq AS b", "r.at >= l.at - INTERVAL '5 s' AND r.at <= l.at + INTERVAL '3 s' AND l.i <= r.i", ""),
    joined("l.seq, r.seq AS b", "r.at BETWEEN l.at AND l.at + INTERVAL '5 s' AND l.s = r.s", ""),
]

WRONG = [
    joined("l.seq", "NOT (,1 * l.i = 0.5) AND l.i < r.i"),
    joined("l.s IN ('%',  , 'b') AS x", "l.i < r.i"),
    joined("l.seq", "l.at <= CAST(r.at AS TIMESTAMP"),
    joined("l.seq", "l.i < r.i AND starts_with(l.s, 'a' 'a')"),
    joined("l.seq", "l.i < r.i AND starts_with(l.i, 'a')"),
    joined("l.seq", "l.i BETWEEN l.n r.n"),
    joined("l.seq", "l.i < r.i AND l.at IN NOT NULL"),
    joined("l.seq", "l.i < r.i") + ",",
    joined("l.seq", "l.i < r.i AND ('WHERE', 'a')"),
    joined("l.seq", "l.i < r.i AND trim(l.i::INTERVAL) = trim(r.s)"),
    joined("l.seq", "l.i < r.i AND 1 = 0"),
    joined("random() AS x", "l.i < r.i"),
    joined("l.seq || ( l.s AS s", "l.i < r.i"),
    joined("l.seq", "l.i < r.i").replace("AS l", "("),
    joined("l.seq", "l.i < r.i AND INTERVAL - 2 = r.i"),
    joined("l.seq", "l.i < r.i AND substr(r.s >= 1, 2) < 'a'"),
    joined("l", "l.i < r.i"),
    joined("l.seq", "l.i < r.i").replace("JOIN", "NATURAL JOIN"),
]

#: Over tables DuckDB answers them around the join; rows that are pushed have no end at which it could.
ENDLESS = [
    joined("count(*) AS n", "l.i < r.i"),
    joined("(SELECT 1) AS x", "l.i < r.i"),
    joined("l.seq", "l.i < r.i").replace("SELECT", "SELECT DISTINCT"),
]


@pytest.mark.parametrize("answer", [by_sql, by_join, by_roles])
@pytest.mark.parametrize("text", RIGHT)
def test_it_is_answered(text, answer):
    finding = verdict(text, answer).finding
    assert finding is None, f"{text}\n{finding.kind}: {finding.text}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [*((text, answer) for text in WRONG for answer in (by_sql, by_join)), *((t, by_join) for t in ENDLESS)],
)
def test_it_is_refused_in_a_sentence(text, answer):
    found = verdict(text, answer, must_answer=False)
    assert found.finding is None, f"{text}\n{found.finding.kind}: {found.finding.text}"
    assert found.outcome == "refused", text


def test_numbers_are_unlike_by_value():
    rows = {"n": [2**53, 2**53 + 1], "d": [2.0**53, 2.0**53]}
    text = "SELECT l.seq, r.seq AS b FROM t AS l JOIN t AS r ON l.d = r.d AND l.n != r.d " + WINDOW
    found = by_sql(DrawnStatement(text, (DrawnTable("t", (), "", pa.table(rows)),), {}))
    assert found.to_pylist() == [{"seq": 1, "b": 0}]
