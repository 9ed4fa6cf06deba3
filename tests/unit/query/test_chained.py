"""Streams that are the results of other queries: what they take from them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from spojoin.errors import QueryError
from spojoin.model import ColumnType, Query, TypeName
from spojoin.protocol.topology import source_topic
from spojoin.query.fingerprint import differences, fingerprint
from spojoin.query.load import load_query, parse_query
from spojoin.runtime.topics import Topics

UPSTREAM = """
name: better
streams:
  trades: {schema: {id: long, price: "decimal(10,2)", at: timestamp(ms), "a b: c": string}, time: at}
sql: |
  SELECT COUNT(*) AS n, l.price, l."a b: c", l.at AS "when" FROM trades AS l JOIN trades AS r ON l.price > r.price
  GROUP BY l WINDOW AS (SLIDE INTERVAL '1 s' ON '10 s') EMIT ON CLOSE
order: event_time
"""
FLOW = """
name: again
streams:
  results: {query: better}
sql: SELECT l.n, r.price FROM results AS l JOIN results AS r ON l.n < r.n WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
BLOCK = """
name: again
streams:
  results:
    query: better
    key: n
sql: SELECT l.n, r.price FROM results AS l JOIN results AS r ON l.n < r.n WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
COLUMNS = {
    "n": ColumnType(TypeName.LONG),
    "price": ColumnType(TypeName.DECIMAL, 10, 2),
    "a b: c": ColumnType(TypeName.STRING),
    "when": ColumnType(TypeName.TIMESTAMP),
}


def loaded(folder: Path, text: str, upstream: str = UPSTREAM) -> Query:
    (folder / "better.yaml").write_text(upstream)
    (folder / "again.yaml").write_text(text)
    return load_query(folder / "again.yaml")


@pytest.mark.parametrize("text", [FLOW, BLOCK])
def test_columns_and_event_time_come_from_the_query(tmp_path: Path, text: str) -> None:
    query = loaded(tmp_path, text)
    (stream,) = query.streams
    assert stream.schema == COLUMNS
    assert (stream.query, stream.time) == ("better", "when")


@pytest.mark.parametrize("text", [FLOW, BLOCK])
def test_the_text_says_all_without_the_other_file(tmp_path: Path, text: str) -> None:
    query = loaded(tmp_path, text)
    alone = parse_query(query.text)
    assert alone.streams == query.streams
    assert fingerprint(alone) == fingerprint(query)
    assert alone.text == query.text


def test_rows_are_read_from_the_results_and_no_input_is_made(tmp_path: Path) -> None:
    query = loaded(tmp_path, FLOW)
    topics = Topics.for_query(query, 2, {})
    assert source_topic(query.streams[0]) == "better.results"
    assert topics.inputs == ("better.results",)
    assert topics.fed == ()
    assert topics.dead_letters(0).topic == "better.results.dlq"


def test_results_of_another_query_mean_another_query(tmp_path: Path) -> None:
    text = loaded(tmp_path, FLOW).text
    assert differences(parse_query(text), parse_query(text.replace("query: better", "query: worse"))) == [
        "rows of results was results of better, is results of worse"
    ]


def test_own_columns_and_own_time_come_first(tmp_path: Path) -> None:
    chosen = loaded(tmp_path, FLOW.replace("{query: better}", "{query: better, schema: {n: int, price: double}}"))
    assert list(chosen.streams[0].schema) == ["n", "price"]
    assert chosen.streams[0].time is None
    timed = loaded(tmp_path, FLOW.replace("{query: better}", "{query: better, time: record}"))
    assert timed.streams[0].time == "record"
    assert parse_query(timed.text).streams == timed.streams


def test_of_right_rows_the_event_time_where_the_left_ones_is_not_selected(tmp_path: Path) -> None:
    pairs = UPSTREAM.replace("COUNT(*) AS n", "l.id AS n").replace('l.at AS "when"', 'r.at AS "when"')
    pairs = pairs.replace("GROUP BY l ", "")
    assert loaded(tmp_path, FLOW, pairs).streams[0].time == "when"
    untimed = pairs.replace('r.at AS "when"', "r.id AS other")
    assert loaded(tmp_path, FLOW, untimed).streams[0].time is None


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "{query: bettr}",
            "line 4: stream results: there is no file bettr.yaml, which defines the columns of query bettr",
        ),
        ("{query: better, envelope: after}", "line 4: stream results: results of a query have no envelope"),
        ("{query: again}", "query again reads its own results, by way of again"),
        ("{query: in.better}", "line 4: name 'in.better' can't begin the names of topics"),
        ("{query: better, time: price}", "line 4: time column 'price' is declared as decimal(10,2)"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, option: str, said: str) -> None:
    with pytest.raises(QueryError, match=said.replace("(", r"\(").replace(")", r"\)")):
        loaded(tmp_path, FLOW.replace("{query: better}", option))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("name: better", "name: best"), "the file better.yaml holds a query named best"),
        (("COUNT(*) AS n", "COUNT(*) AS m"), "unknown column .*'n'"),
    ],
)
def test_mistakes_in_the_other_query_are_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        loaded(tmp_path, FLOW, UPSTREAM.replace(*change))


def test_counts_have_no_columns_to_take_in(tmp_path: Path) -> None:
    counts = """
name: better
streams: {trades: {schema: {price: double}}}
sql: SELECT * FROM trades AS l JOIN trades AS r ON l.price > r.price WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
    with pytest.raises(
        QueryError, match="query better gives count, which have no columns to read: expected a query with a select list"
    ):
        loaded(tmp_path, FLOW, counts)
