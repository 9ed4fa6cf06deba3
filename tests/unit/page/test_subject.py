"""Which services the page expects, by the settings that they were started with."""

from __future__ import annotations

import pytest

from spojoin.page.subject import Subject, window_text
from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.runtime.settings import load_settings

QUERY = parse_query("""
name: q
streams:
  s: {schema: {a: int, b: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b > r.b WINDOW AS (SLIDE INTERVAL '1' ON '10')
""")


def expected(role: Role, **settings: object) -> tuple[str, ...]:
    return Subject.served(QUERY, load_settings(query_file="q.yaml", **settings)).expected(role)


@pytest.mark.parametrize(
    ("role", "packing", "services"),
    [
        (Role.SINK, "apart", ("sink",)),
        (Role.MUTABLE, "apart", ("mutable-0", "mutable-1")),
        (Role.POJOIN, "apart", ("pojoin-0", "pojoin-1", "pojoin-2")),
        (Role.SINK, "together", ("together",)),
        (Role.POJOIN, "together", ("together", "pojoin-1", "pojoin-2")),
        (Role.ROUTER, "router+sink", ("router+sink",)),
        (Role.LOGICAL_AND, "router+sink", ("logical-and",)),
        (Role.POJOIN, "answerer", ("pojoin-0", "pojoin-1", "pojoin-2")),
        (Role.MUTABLE, "answerer", ("pojoin-0", "pojoin-1", "pojoin-2")),
        (Role.PERMUTATION, "answerer", ("permutation",)),
    ],
)
def test_a_role_is_expected_in_its_process(role, packing, services):
    assert expected(role, packing=packing, workers=3) == services


TEXT = "name: q\nstreams:\n  s: {schema: {a: int, at: timestamp}, time: at}\nsql: SELECT * FROM s AS l JOIN s AS r ON "


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("l.a < r.a WINDOW AS (SLIDE INTERVAL '10' ON '1000')", "1,000 tuples, moving by 10"),
        (
            "l.a = r.a AND r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'",
            "right -60 to +120 s of left's event time",
        ),
    ],
)
def test_a_window_or_an_interval(condition, words):
    assert window_text(parse_query(TEXT + condition)) == words
