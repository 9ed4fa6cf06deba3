"""The option `tables` of a query file: what it says, and every mistake in a sentence with its line."""

from __future__ import annotations

import pytest

from spojoin.errors import QueryError
from spojoin.model import EmitOn, JoinKind, Order, Output, TableSource
from spojoin.query.fingerprint import fingerprint, meaning
from spojoin.query.load import parse_query
from spojoin.windows import WholeTable

FILE = """\
name: q
streams: {orders: {schema: {id: long, amount: double}}}
tables: {tiers: {TABLE}}
sql: SELECT l.id, r.name FROM orders AS l JOIN tiers AS r ON l.amount >= r.low
"""
SCHEMA = "schema: {low: double, name: string}"


def text(table: str = f"file: tiers.csv, {SCHEMA}", **replaced: str) -> str:
    written = FILE.replace("TABLE", table)
    for old, new in replaced.items():
        written = written.replace({"sql": "SELECT l.id, r.name FROM orders AS l JOIN tiers AS r"}.get(old, old), new)
    return written


def test_a_file():
    query = parse_query(text())
    assert query.streams[1].table == TableSource(file="tiers.csv")
    assert (query.has_table, query.asks, query.window) == (True, True, WholeTable())
    assert (query.order.by, query.results.output, query.answers.emit) == (Order.ARRIVAL, Output.ROWS, EmitOn.ARRIVAL)


def test_a_topic():
    table = parse_query(text(f"topic: reference.tiers, {SCHEMA}, refresh: 250 ms")).streams[1].table
    assert table == TableSource(topic="reference.tiers", refresh_ms=250)


def test_emit_on_close_is_on_arrival():
    assert parse_query(text() + "  EMIT ON CLOSE\n").answers.emit is EmitOn.ARRIVAL


def test_a_right_join_has_its_table_on_the_left():
    query = parse_query(text(sql="SELECT l.id, r.name FROM tiers AS r RIGHT JOIN orders AS l"))
    assert [stream.name for stream in query.streams] == ["orders", "tiers"]
    assert query.answers.join is JoinKind.LEFT


def test_where_the_rows_are_is_part_of_the_meaning_but_no_files_name():
    one, other = (parse_query(text(f"file: {name}.csv, {SCHEMA}")) for name in "ab")
    topic, slow = (parse_query(text(f"topic: t, {SCHEMA}, refresh: {each} s")) for each in (1, 9))
    assert fingerprint(one) == fingerprint(other) != fingerprint(topic) == fingerprint(slow)
    assert meaning(one)["window"] == "the whole table"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (SCHEMA, "line 3: table tiers: expected either 'file', with a path, or 'topic', with a name"),
        (f"file: a.csv, topic: t, {SCHEMA}", "table tiers: expected either 'file'"),
        ("file: a.csv", "line 3: table tiers: missing option 'schema': expected columns and their types"),
        ("file: a.csv, schema: {}", "table tiers: its schema is empty"),
        (
            f"file: a.csv, {SCHEMA}, refresh: 1 s",
            "table tiers: 'refresh' is for topics, and a file is read once: remove it",
        ),
        (f"topic: t, {SCHEMA}, refresh: 1 us", "table tiers: refresh '1 us': expected"),
        (f"topic: t, {SCHEMA}, refresh: soon", "table tiers: refresh 'soon': expected"),
        (f"topic: t, {SCHEMA}, key: name", "the keys of messages identify the rows of a topic"),
        (f"file: a.csv, {SCHEMA}, time: low", "its rows are always in the window: remove 'time'"),
        (f"fiel: a.csv, {SCHEMA}", "unknown option of table tiers 'fiel'"),
    ],
)
def test_a_mistake_in_a_table_is_named(table, sentence):
    with pytest.raises(QueryError) as refused:
        parse_query(text(table))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("JOIN tiers", "JOIN tires", "unknown stream or table 'tires': expected orders or tiers; did you mean"),
        ("JOIN tiers", "JOIN orders", "table 'tiers' isn't used by the sql"),
        (
            "tables: {tiers",
            "tables: {orders",
            "line 3: 'orders' is the name of a stream and of a table: expected two names",
        ),
        ("tables: {tiers", "tables: {ti.ers", "table name 'ti.ers': expected 1 to 200 of a-z A-Z 0-9 _ -"),
        ("JOIN tiers", "JOIN TABLE(orders)", "unknown table 'orders': expected tiers"),
        (
            "FROM orders AS l JOIN tiers AS r",
            "FROM tiers AS r JOIN orders AS l",
            "'tiers' is a table, and a table can only be the right side: expected FROM orders AS l",
        ),
        ("JOIN tiers", "FULL JOIN tiers", "a FULL JOIN also gives the rows of the right side: expected LEFT JOIN"),
        ("r.low\n", "r.low WINDOW AS (SLIDE INTERVAL '1' ON '9')\n", "remove the clause WINDOW"),
        ("r.low\n", "r.low\norder: event_time\n", "expected order arrival"),
        ("r.low\n", "r.low\noutput: pairs\n", "output pairs gives pairs as they come"),
        ("r.low\n", "r.low\nlimit: 3\n", "limit 3 cuts a row's partners as they come"),
        ("r.low\n", "r.low\nlateness: 3 s\n", "lateness needs event-time order"),
        ("r.low\n", "r.low\nmethod: scan\n", "method 'scan' gives each pair when its later row comes"),
        ("r.low\n", "r.low\nlayout: split_join\n", "layout 'split_join' gives each pair when its later row comes"),
    ],
)
def test_what_doesnt_go_with_a_table_is_refused(old, new, sentence):
    written = text()
    assert old in written
    with pytest.raises(QueryError) as refused:
        parse_query(written.replace(old, new))
    assert sentence in str(refused.value)
