"""Functions whose value a restart would change are refused by name, and so are those of more than single values."""

import duckdb
import pytest

from spojoin.errors import QueryError
from spojoin.expressions.functions import exists, why_refused
from spojoin.query.load import parse_query
from tests.support.query_texts import typed

VOLATILE = [
    "random()",
    "now()",
    "current_date",
    "current_date()",
    "current_time",
    "CURRENT_TIMESTAMP",
    "localtime",
    "localtimestamp",
    "today()",
    "uuid()",
    "gen_random_uuid()",
    "uuidv4()",
    "uuidv7()",
    "nextval('s')",
    "currval('s')",
    "getvariable('x')",
    "current_setting('TimeZone')",
    "get_current_timestamp()",
    "transaction_timestamp()",
    "get_current_time()",
    "txid_current()",
    "age(l.at)",
    "current_user",
    "current_schema()",
    "current_database()",
    "version()",
    "setseed(0.5)",
]


def refusal(condition: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse_query(typed(f"l.i < r.i AND {condition}"))
    assert caught.value.line == 19
    assert caught.value.column is not None
    return str(caught.value)


@pytest.mark.parametrize("call", VOLATILE)
def test_volatile_functions_are_refused_by_name(call: str):
    message = refusal(f"l.i IS NOT DISTINCT FROM {call}")
    name = call.split("(", maxsplit=1)[0].lower()
    assert "gives another value at each call, so that a restart would change results" in message
    synonyms = {"today": "current_date", "get_current_time": "current_time", "gen_random_uuid": "uuid"}
    assert f"function {synonyms.get(name, name)}()" in message.lower()


@pytest.mark.parametrize("call", VOLATILE[:8])
def test_they_are_refused_in_every_place(call: str):
    for text in (
        typed(f"l.i < r.i AND lower(CAST({call} AS VARCHAR)) = lower(CAST(r.i AS VARCHAR) || CAST(l.i AS VARCHAR))"),
        typed(f"l.i < length(CAST({call} AS VARCHAR)) + r.i"),
        typed("l.i < r.i").replace("SELECT *", f"SELECT l.i, {call} AS x"),
    ):
        with pytest.raises(QueryError, match="gives another value at each call"):
            parse_query(text)


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        ("sum(l.i) > 5", "is an aggregate"),
        ("count(*) > 5", "is an aggregate"),
        ("string_agg(l.i) = 'x'", "is an aggregate"),
        ("median(l.d) > 5", "is an aggregate"),
        ("lag(l.i) > 5", "is a window function"),
        ("row_number() OVER (ORDER BY l.i) > 5", "is a window function"),
        ("sum(l.i) OVER () > 5", "is a window function"),
        ("EXISTS (SELECT 1)", "is a query within the query"),
        ("l.i > (SELECT 5)", "is a query within the query"),
        ("l.i = ?", "is a parameter"),
        ("l.i = $1", "is a parameter"),
        ("l.i = $name", "is a parameter"),
    ],
)
def test_what_is_no_expression_of_single_values(condition: str, part: str):
    assert part in refusal(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "len(list_filter([1, 2, l.i], lambda x: x > 1)) = 2",
        "list_transform([l.i], lambda x: x + 1) = [5]",
        "CASE WHEN l.i > 5 THEN true ELSE l.d > 2 END",
        "regexp_matches(CAST(l.i AS VARCHAR), '^1')",
        "date_part('year', l.at) = 2013",
        "l.at < TIMESTAMP '2013-01-01' + INTERVAL 1 DAY",
        "coalesce(l.i, 0) IN (1, 2, 3)",
        "least(l.i, l.g) > greatest(1, 2)",
        "md5(CAST(l.i AS VARCHAR)) LIKE 'a%'",
        "age(l.at, TIMESTAMP '2013-01-01') > INTERVAL 1 DAY",
        "l.d IS NOT DISTINCT FROM l.f",
    ],
)
def test_deterministic_expressions_are_taken(condition: str):
    (stream, _) = parse_query(typed(f"l.i < r.i AND {condition}")).streams
    assert stream.filter is not None


def test_every_function_that_duckdb_calls_volatile_is_refused():
    found = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE stability <> 'CONSISTENT' AND function_type = 'scalar'"
    ).fetchall()
    assert len(found) > 5
    assert [name for (name,) in found if why_refused(name) is None] == []


def test_names_that_exist():
    assert exists("LOWER")
    assert not exists("lowest")
    assert why_refused("lowest") is None
    assert "gives a table" in (why_refused("read_csv") or "")
