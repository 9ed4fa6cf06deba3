"""Functions whose value a restart would change are refused by name, and so are those of more than single values."""

import duckdb
import pytest

from spojoin.errors import QueryError
from spojoin.expressions.functions import why_refused
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
DATES = [
    "date_diff('minute', l.at, TIMESTAMP '2013-01-01') > 5",
    "date_part('hour', CAST(l.at AS TIMESTAMPTZ)) = 5",
    "date_trunc('day', l.at) = l.at",
    "hour(l.at) = 5",
    "dayname(l.at) = 'Monday'",
    "strftime(l.at, '%H') = '05'",
    "time_bucket(INTERVAL '5 minutes', l.at) = l.at",
    "last_day(l.at) = DATE '2013-01-31'",
    "epoch(l.at) > 5",
    "make_timestamptz(2013, 1, 1, 0, 0, 0) = CAST(l.at AS TIMESTAMPTZ)",
    "timezone('Europe/Berlin', l.at) > TIMESTAMPTZ '2013-01-01 00:00:00Z'",
    "l.at AT TIME ZONE 'Europe/Berlin' > TIMESTAMPTZ '2013-01-01 00:00:00Z'",
]
HAS_SLEEP = "sleep_ms" in {name for (name,) in duckdb.sql("SELECT function_name FROM duckdb_functions()").fetchall()}


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
        ("lag(l.i) > 5", "expected functions of single values"),
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


@pytest.mark.parametrize("condition", DATES)
def test_functions_of_dates_are_taken_whatever_overloads_with_a_zone_read(condition: str):
    (stream, _) = parse_query(typed(f"l.i < r.i AND ({condition})")).streams
    assert stream.filter is not None


@pytest.mark.parametrize("call", ["now()", "current_date", "today()", "age(l.at)", "localtimestamp"])
def test_who_asks_for_the_clock_is_told_to_write_a_constant(call: str):
    message = refusal(f"l.at < {call}")
    assert "TIMESTAMP '2024-03-01 10:00:00'" in message
    assert "TIMESTAMP 'infinity'" in message


@pytest.mark.skipif(not HAS_SLEEP, reason="this DuckDB has no function that waits")
@pytest.mark.parametrize("call", ["pg_sleep(2) IS NULL", "sleep_ms(2000) IS NULL", "coalesce(pg_sleep(l.i), true)"])
def test_functions_that_wait_are_refused(call: str):
    assert "waits, and all other rows with it" in refusal(call)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("pg_postmaster_start_time() > l.at", "gives another value"),
        ("current_catalog() = 'x'", "gives another value"),
        ("wavg(l.i, l.i) > 5", "is an aggregate"),
        ("regexp_split_to_table(CAST(l.i AS VARCHAR), 'a') = 'b'", "gives a table"),
    ],
)
def test_a_macro_is_what_it_calls(call: str, part: str):
    assert part in refusal(call)


def test_every_function_that_duckdb_calls_volatile_is_refused():
    found = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'scalar' AND function_name <> "
        "'error' AND (stability = 'VOLATILE' OR stability <> 'CONSISTENT' AND len(parameter_types) = 0)"
    ).fetchall()
    assert len(found) > 5
    assert [name for (name,) in found if why_refused(name) is None] == []


def test_names_that_exist():
    assert why_refused("LOWER") is None
    assert why_refused("lowest") is None
    assert "gives a table" in (why_refused("read_csv") or "")
