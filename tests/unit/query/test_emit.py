"""When rows answer, where the statement says it and where it doesn't, and what is said of a row beside itself."""

from __future__ import annotations

import pytest

from spojoin.errors import QueryError
from spojoin.explain.plan import explain
from spojoin.model import EmitOn, Query
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query

TEXT = """
name: q
streams:
  a: {{schema: {{id: long, x: long, at: timestamp}}, time: at}}
  b: {{schema: {{id: long, x: long, at: timestamp}}, time: at}}
sql: |
  {sql}
order: event_time
"""
BEFORE = "r.at BETWEEN l.at - INTERVAL '5 s' AND l.at"
ASKING = [
    ("l.id", "LEFT ", ""),
    ("l.id", "FULL ", ""),
    ("l.id", "SEMI ", ""),
    ("l.id", "ANTI ", ""),
    ("COUNT(*) AS n", "", "GROUP BY l"),
    ("r.x", "", "QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.x) = 1"),
    ("r.x", "ASOF ", ""),
]


def query(sql: str) -> Query:
    return parse_query(TEXT.format(sql=sql))


def statement(select: str, kind: str, clauses: str, on: str = BEFORE, end: str = "") -> str:
    return f"SELECT {select} FROM a AS l {kind}JOIN b AS r ON l.x = r.x AND {on} {clauses} {end}".rstrip()


@pytest.mark.parametrize("form", ASKING)
def test_rows_that_ask_between_times_answer_on_close_unless_they_say_otherwise(form: tuple[str, str, str]) -> None:
    plain = query(statement(*form))
    assert plain.answers.emit is EmitOn.CLOSE
    assert fingerprint(plain) == fingerprint(query(statement(*form, end="EMIT ON CLOSE")))
    at_arrival = query(statement(*form, end="EMIT ON ARRIVAL"))
    assert at_arrival.answers.emit is EmitOn.ARRIVAL
    assert fingerprint(plain) != fingerprint(at_arrival)


@pytest.mark.parametrize("form", ASKING)
@pytest.mark.parametrize("end", ["", ";", " -- by price", " ; -- by price"])
def test_rows_that_ask_in_a_window_say_when_they_answer(form: tuple[str, str, str], end: str) -> None:
    on = "l.at >= r.at" if form[1] == "ASOF " else "l.id < r.id"
    sql = statement(*form, on, f"WINDOW AS (SLIDE INTERVAL '1 s' ON '5 s'){end}")
    with pytest.raises(
        QueryError, match=r"EMIT ON ARRIVAL at the end, for a row.* EMIT ON CLOSE, for it to answer"
    ) as caught:
        query(sql)
    assert caught.value.instead is not None
    assert query(caught.value.instead.strip()).answers.emit is EmitOn.CLOSE


def test_pairs_answer_at_arrival() -> None:
    assert query(statement("l.id", "", "")).answers.emit is EmitOn.ARRIVAL
    assert query(statement("l.id", "", "", "l.id < r.id", "WINDOW AS (SLIDE INTERVAL '1' ON '5')")).answers.emit is (
        EmitOn.ARRIVAL
    )


@pytest.mark.parametrize("form", [form for form in ASKING if form[1] not in ("FULL ", "ASOF ")])
def test_where_all_partners_come_before_both_times_are_one(form: tuple[str, str, str]) -> None:
    on = "r.at >= l.at - INTERVAL '5 s' AND r.at < l.at"
    found = {fingerprint(query(statement(*form, on, end))) for end in ("", "EMIT ON CLOSE", "EMIT ON ARRIVAL")}
    assert len(found) == 1
    assert query(statement(*form, on)).answers.emit is EmitOn.ARRIVAL


def test_a_row_closes_once_event_time_has_passed_its_interval() -> None:
    rules = explain(query(statement("l.id", "LEFT ", ""))).window_rules
    assert any("answers once event time has passed it; until then 5 s of event time of right rows" in r for r in rules)


def itself(on: str, kind: str = "", end: str = "WINDOW AS (SLIDE INTERVAL '1' ON '9')") -> tuple[str, ...]:
    sql = f"SELECT l.id FROM a AS l {kind}JOIN a AS r ON {on} {end}"
    return parse_query(TEXT.replace("  b: {{", "  # {{").format(sql=sql)).notes


@pytest.mark.parametrize(
    ("on", "how"),
    [
        ("l.x <= r.x", "are"),
        ("l.id = r.id AND l.x >= r.x", "are"),
        ("ABS(l.x - r.x) < 2", "are"),
        ("l.x < r.x + 1", "are"),
        ("r.x <= l.x AND r.id > l.x", "may be"),
        ("l.x % 3 = r.x % 3", "are"),
    ],
)
def test_a_row_beside_itself_is_said_where_the_conditions_hold(on: str, how: str) -> None:
    (said,) = itself(on)
    assert f"no row is paired with itself, although all conditions {how} true of such a pair" in said
    assert "JOIN TABLE(a)" in said


@pytest.mark.parametrize(
    "on", ["l.x < r.x", "l.x = r.x AND l.id <> r.id", "l.x <= r.x AND l.seq < r.seq", "l.x + 1 <= r.x", "l.id = r.x"]
)
def test_nothing_is_said_where_a_condition_keeps_it_out(on: str) -> None:
    assert itself(on) == ()


def test_the_table_is_named_as_the_statement_would_name_it() -> None:
    text = TEXT.replace("  b: {{", "  # {{").replace("  a: {{", "  my-a: {{")
    sql = "SELECT l.id FROM \"my-a\" AS l JOIN \"my-a\" AS r ON l.x <= r.x WINDOW AS (SLIDE INTERVAL '1' ON '9')"
    assert 'JOIN TABLE("my-a")' in parse_query(text.format(sql=sql)).notes[0]


def test_intervals_hold_a_row_beside_itself_or_not() -> None:
    assert itself(f"l.x = r.x AND {BEFORE}", "SEMI ", "")
    assert itself(f"l.x = r.x AND {BEFORE}", "FULL ", "")
    assert not itself("l.x = r.x AND r.at > l.at AND r.at <= l.at + INTERVAL '5 s'", "SEMI ", "")
    assert not query(statement("l.id", "", "")).notes
