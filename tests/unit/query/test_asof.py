"""Which row of an ASOF join is nearest, and what is refused because it may mean two."""

from __future__ import annotations

import re

import pytest

from spojoin.errors import QueryError
from spojoin.explain.plan import explain
from spojoin.model import Query
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query

TEXT = """
name: q
streams:
  t: {{schema: {{id: long, sym: string, qty: long, px: double, at: timestamp, day: date}}, time: at}}
tables:
  q: {{file: q.csv, schema: {{sym: string, size: long, bid: double, at: timestamp, day: date, "tolerance": long}}}}
sql: |
  SELECT l.id, r.bid FROM t AS l {joined}
"""


def query(joined: str) -> Query:
    return parse_query(TEXT.format(joined=joined))


def nearest(joined: str) -> str:
    best = query(joined).answers.best
    assert best is not None
    return best.nearest


@pytest.mark.parametrize(
    ("joined", "condition"),
    [
        ("ASOF JOIN q AS r ON l.sym = r.sym AND l.at >= r.at", "l.at >= r.at"),
        ("ASOF JOIN q AS r ON r.at BETWEEN l.at - INTERVAL '5 s' AND l.at", "r.at <= l.at"),
        ("ASOF JOIN q AS r ON r.at BETWEEN l.at AND l.at + INTERVAL '5 s'", "r.at >= l.at"),
        ("ASOF JOIN q AS r ON L.AT >= r.at AND l.AT - INTERVAL '1 month' <= r.At", "L.AT >= r.at"),
        ("ASOF JOIN q AS r ON r.size + 3 >= l.qty AND l.qty >= r.size", "l.qty >= r.size"),
        ("ASOF JOIN q AS r ON r.at >= l.at + INTERVAL '30 s'", "r.at >= l.at + INTERVAL '30' SECOND"),
        ("ASOF JOIN q AS r MATCH_CONDITION (l.qty <= r.size) ON l.at >= r.at", "l.qty <= r.size"),
        ("ASOF JOIN q AS r match_condition(l.at>=r.at)ON(l.qty <= r.size)", "l.at >= r.at"),
        ("ASOF JOIN q AS r ON ABS(l.px - r.bid) < 5 AND l.at >= r.at", "l.at >= r.at"),
        ("ASOF JOIN q AS r ON ABS(l.px - r.bid) < 5", "ABS(l.px - r.bid) < 5"),
        ("ASOF JOIN q AS r ON NOT l.at < r.at", "l.at >= r.at"),
        ("ASOF JOIN q AS r ON r.at - l.at BETWEEN INTERVAL '-5 s' AND INTERVAL '0 s'", "r.at <= l.at"),
        ("ASOF JOIN q AS r ON l.sym = r.sym AND l.at >= r.at AND r.tolerance > 3", "l.at >= r.at"),
    ],
)
def test_one_condition_says_it(joined: str, condition: str) -> None:
    assert nearest(joined) == condition
    assert any(f"{condition} says which row is nearest" in rule for rule in explain(query(joined)).window_rules)


def test_however_it_is_written_it_means_the_same() -> None:
    forms = [
        "ASOF LEFT JOIN q AS r ON l.sym = r.sym AND l.at >= r.at AND r.at >= l.at - INTERVAL '5 s'",
        "LEFT ASOF JOIN q AS r ON l.sym = r.sym AND l.at >= r.at TOLERANCE INTERVAL '5 s'",
        "ASOF LEFT JOIN q AS r ON l.sym = r.sym AND l.at >= r.at TOLERANCE 5s",
        "LEFT OUTER ASOF JOIN q AS r ON l.sym = r.sym AND l.at >= r.at TOLERANCE '5 s'",
        "ASOF LEFT JOIN q AS r USING (sym, at) TOLERANCE INTERVAL '5' SECOND",
        "ASOF LEFT JOIN q AS r USING (Sym, AT) TOLERANCE 5 seconds",
    ]
    assert len({fingerprint(query(each)) for each in forms}) == 1


@pytest.mark.parametrize(
    ("joined", "proposed", "other"),
    [
        ("ON l.qty <= r.size AND l.at >= r.at", "l.at >= r.at", "l.qty <= r.size"),
        ("ON l.at >= r.at AND l.at <= r.at", "l.at >= r.at", "l.at <= r.at"),
        ("ON l.qty <= r.size AND l.px > r.bid", "l.qty <= r.size", "l.px > r.bid"),
        ("ON l.px > r.bid AND r.at >= l.at + INTERVAL '30 s'", "r.at >= l.at + INTERVAL '30' SECOND", "l.px > r.bid"),
        ("ON ABS(l.px - r.bid) < 5 AND ABS(l.qty - r.size) < 5", "ABS(l.px - r.bid) < 5", "ABS(l.qty - r.size) < 5"),
        ("ON r.size BETWEEN l.qty - 5 AND l.qty + 5", "ABS(l.qty - r.size)", "r.size >= l.qty - 5"),
    ],
)
def test_where_two_may_be_meant_both_are_written_out(joined: str, proposed: str, other: str) -> None:
    with pytest.raises(QueryError, match=re.escape(f"MATCH_CONDITION ({other})")) as caught:
        query(f"ASOF JOIN q AS r {joined}")
    assert caught.value.instead is not None
    assert nearest(caught.value.instead.partition(" AS l ")[2].strip()) == proposed
    assert nearest(f"ASOF JOIN q AS r MATCH_CONDITION ({other}) {joined}") == other


@pytest.mark.parametrize(
    ("joined", "said"),
    [
        ("ASOF JOIN q AS r ON l.sym = r.sym", "lacks an inequality that defines which row is nearest"),
        ("ASOF JOIN q AS r MATCH_CONDITION (l.at = r.at) ON l.sym = r.sym", "compares no expression of l"),
        (
            "ASOF JOIN q AS r MATCH_CONDITION l.at >= r.at ON l.sym = r.sym",
            "not followed by a condition in parentheses",
        ),
        ("ASOF JOIN q AS r MATCH_CONDITION (l.at >= ) ON l.sym = r.sym", "can't be read: expected MATCH_CONDITION"),
        ("ASOF JOIN q AS r MATCH_CONDITION (ABS(l.px - r.bid))", "expected a tolerance at the end of the join"),
        ("ASOF JOIN q AS r ON l.at >= r.at TOLERANCE 5 parsecs", "parsecs"),
        ("ASOF JOIN q AS r ON l.at >= r.at TOLERANCE 'soon'", "TOLERANCE is not followed by a distance"),
        ("ASOF JOIN q AS r ON l.at >= r.at TOLERANCE", "TOLERANCE is not followed by a distance"),
        ("JOIN q AS r ON l.at >= r.at QUALIFY RANK() OVER (PARTITION BY l ORDER BY r.at) <= 2", "RANK() OVER ... = 1"),
        ("ASOF JOIN q AS r ON l.at >= r.at ASOF JOIN q AS s ON l.at <= s.at", "ARG_MAX(r.mid, r.at) FILTER"),
    ],
)
def test_what_says_nothing_is_refused(joined: str, said: str) -> None:
    with pytest.raises(QueryError, match=re.escape(said)) as caught:
        query(joined)
    assert "expected" in str(caught.value)


def test_where_is_behind_the_choice_but_for_left_rows() -> None:
    found = query("ASOF JOIN q AS r ON l.at >= r.at WHERE r.bid > 3 AND l.qty > 1 AND r.size > l.qty")
    assert found.streams[0].filter is not None
    assert found.streams[1].filter is None
    assert found.answers.where is not None
    assert {use.name for use in found.answers.where.uses} == {"bid", "size", "qty"}
    plain = query("ASOF JOIN q AS r ON l.at >= r.at WHERE l.qty > 1")
    assert plain.answers.where is None
    assert fingerprint(plain) != fingerprint(found)


def test_columns_may_have_the_words_of_clauses_as_names() -> None:
    joined = "JOIN q AS r ON l.qty > r.tolerance AND r.tolerance > 0"
    assert query(joined).answers.best is None
    joined = "ASOF JOIN q AS r MATCH_CONDITION (l.at >= r.at) ON tolerance > 5 AND l.qty > tolerance - 1"
    named = query(f"{joined} TOLERANCE 5s WHERE 3 < tolerance")
    assert named.answers.where is not None
    assert named.streams[1].filter is not None
