"""Joins with a table: the product against DuckDB, and every refusal in a sentence."""

from random import Random

import pyarrow as pa
import pytest

import spojoin
from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles, table_files
from spojoin.errors import BadData, ConfigurationError
from spojoin.query.load import parse_query
from tests.support.asked import engine_of, fed, rows_of
from tests.support.asking_statements import table_of
from tests.support.long import first_of
from tests.support.table_statements import draw, stretches


def product(statement, seed):
    """The rows that the embedded engine gives, in pieces, frames and batches of drawn sizes."""
    rng = Random(f"sizes {seed}")
    engine, found = engine_of(statement, rng), []
    for is_table, rows in statement.steps:
        found += engine.load(table_of(rows), "table b") if is_table else fed(engine, 0, rows, rng)
        if rng.random() < 0.3:
            found += engine.flush()
    found += engine.finish()
    return rows_of(found)


@pytest.mark.parametrize("seed", first_of(40, range(120)))
def test_answers_are_those_of_duckdb(seed):
    statement = draw(seed)
    assert product(statement, seed) == statement.answer(), statement.sql()


def test_what_is_drawn_has_versions_between_rows():
    drawn = [draw(seed) for seed in range(400)]
    assert sum(stretches(each).count(True) > 2 for each in drawn) > 50
    assert sum(any(is_table and not rows for is_table, rows in each.steps) for each in drawn) > 100


ORDERS = {"id": [1, 2, 3], "amount": [5, 15, 25]}
TIERS = {"low": [0, 10], "high": [10, 20], "name": ["a", "b"]}
JOINED = "JOIN TABLE(tiers) AS r ON l.amount >= r.low AND l.amount < r.high"


def test_sql_over_rows_in_memory():
    found = spojoin.sql(f"SELECT l.id, r.name FROM orders AS l LEFT {JOINED}", orders=ORDERS, tiers=TIERS)
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [(1, "a"), (2, "b"), (3, None)]


def test_one_file_as_stream_and_table(tmp_path):
    (tmp_path / "rows.csv").write_text("a\n1\n2\n3\n")
    file = tmp_path / "rows.csv"
    found = spojoin.sql(f"SELECT l.a, r.a AS b FROM '{file}' AS l JOIN TABLE('{file}') AS r ON l.a < r.a")
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [(1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "SELECT l.id FROM TABLE(tiers) AS r JOIN orders AS l ON l.amount >= r.low",
            "'tiers' is a table, and a table can only be the right side",
        ),
        (
            "SELECT l.id FROM TABLE(orders) AS l JOIN TABLE(tiers) AS r ON l.amount >= r.low",
            "'orders' and 'tiers' are tables, and only the rows of a stream answer",
        ),
        (
            "SELECT l.id FROM orders AS l JOIN TABLE(tiers) AS r ON l.amount >= r.low "
            "WINDOW AS (SLIDE INTERVAL '1' ON '9')",
            "whose rows are always in the window: remove the clause WINDOW",
        ),
        (
            "SELECT l.id FROM orders AS l JOIN TABLE tiers AS r ON l.amount >= r.low",
            "not followed by a name in parentheses",
        ),
        ("SELECT l.id FROM orders AS l JOIN TABLE(tires) AS r ON l.amount >= r.low", "unknown table 'tires'"),
    ],
)
def test_what_no_statement_can_say_of_a_table(statement, sentence):
    with pytest.raises(ConfigurationError, match="line 1") as refused:
        spojoin.sql(statement, orders=ORDERS, tiers=TIERS)
    assert sentence in str(refused.value)


def test_a_table_has_no_event_time():
    with pytest.raises(ConfigurationError, match="the rows that ask about it answer in their own order"):
        spojoin.sql(f"SELECT l.id FROM orders AS l {JOINED}", time="id", orders=ORDERS, tiers=TIERS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('a,b\n1,2\n"1,5",3\n', "row 1: field a: value '1,5' is not a long"),
        ("a,b\n1,2\n3\n", "row 1: the line is no row with the columns of t.csv"),
    ],
)
def test_a_bad_row_of_a_file_is_named(tmp_path, text, sentence):
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "o.csv").write_text("id\n1\n")
    query = parse_query(
        "name: q\nstreams: {o: {schema: {id: long}}}\ntables: {t: {file: t.csv, schema: {a: long, b: long}}}\n"
        "sql: SELECT l.id, r.b FROM o AS l JOIN t AS r ON l.id <= r.a\n"
    )
    files = RunFiles({"o": tmp_path / "o.csv", **table_files(query, tmp_path)}, tmp_path / "out.csv")
    with pytest.raises(BadData) as refused:
        run(query, files)
    assert sentence in str(refused.value)
    assert f"table t, {tmp_path / 't.csv'}, " in str(refused.value)
    assert not (tmp_path / "out.csv").exists()


def joined():
    return spojoin.Join(
        f"SELECT l.id, r.name FROM orders AS l {JOINED}",
        {"orders": {"id": "long", "amount": "double"}, "tiers": {"name": "string", "low": "double", "high": "double"}},
    )


def test_loading_replaces_the_table():
    with joined() as join:
        join.load(TIERS)
        first = join.push(ORDERS)
        second = join.load({"low": [20], "high": [30], "name": ["c"]})
        third = join.push({"id": [4, 5], "amount": [5, 25]})
        found = pa.concat_tables([first, second, third, join.flush()])
        assert [tuple(row.values()) for row in found.to_pylist()] == [(1, "a"), (2, "b"), (5, "c")]


def test_rows_before_the_table_are_refused():
    with joined() as join, pytest.raises(ConfigurationError, match="'tiers' has no rows yet: load them first"):
        join.push(ORDERS)


def test_a_refused_version_leaves_the_table():
    with joined() as join:
        join.load(TIERS)
        with pytest.raises(BadData, match="table tiers, row 1: field low: value 'x' is not a double"):
            join.load({"low": ["1", "x"], "high": [30, 40], "name": ["c", "d"]})
        join.push(ORDERS)
        assert join.flush().num_rows == 2


def test_load_needs_a_table():
    schemas = {"a": {"x": "long"}}
    statement = "SELECT l.x FROM a AS l JOIN a AS r ON l.x < r.x WINDOW AS (SLIDE INTERVAL '1' ON '9')"
    with spojoin.Join(statement, schemas) as join, pytest.raises(ConfigurationError, match="joins with no table"):
        join.load(pa.table({"x": [1]}))
