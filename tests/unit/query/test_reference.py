"""The reference of statements: what the page says of them is what becomes of them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml

import spojoin
from spojoin.columns.column_types import parse_type
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import EmitOn, JoinKind, TypeName
from spojoin.query.load import LIMIT_MAX, parse_query
from spojoin.windows import IntervalWindow

ROOM = Path(__file__).parents[3] / "services/spojoin/query"
PAGE, EVALUATION = ((ROOM / name).read_text() for name in ("README.md", "EVALUATION.md"))
SIDES = "FROM trades AS l JOIN quotes AS r"
FULL = "FROM trades AS l FULL JOIN quotes AS r"
WINDOW = "WINDOW AS (SLIDE INTERVAL '1' ON '10')"
BLOCKS = [textwrap.dedent(each) for each in re.findall(r"(?m)(?:^ {4}.*\n)+", PAGE)]


def schemas():
    block = next(each for each in BLOCKS if each.startswith("trades:"))
    found = re.findall(r"(\w+): \{(.*)\}", block)
    return {name: dict(re.findall(r"(\w+): (\w+(?:\([\d,]+\))?)", columns)) for name, columns in found}


def query(sql):
    used = {name: columns for name, columns in schemas().items() if re.search(rf"\b{name}\b", sql)}
    with spojoin.Join(sql, used) as join:
        return join.query


def section(title, page=PAGE):
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(title, page=PAGE):
    rows = re.findall(r"(?m)^\|(?![-|]+$)(.*)\|$", section(title, page))[1:]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def places(sql):
    found = query(sql)
    filters = [stream.filter for stream in found.streams if stream.filter is not None]
    return ["index"] * len(found.predicates) + ["residual"] * len(found.residuals) + ["filter"] * len(filters)


def test_the_first_statement_has_conditions_of_each_kind():
    sql = next(each for each in BLOCKS if each.startswith("SELECT"))
    assert places(sql) == ["index"] * 3 + ["residual"] + ["filter"] * 2
    assert [each.name for each in query(sql).results.select] == ["id", "quote", "gap"]


CONDITIONS = [(code(row[2])[0], row[1]) for row in table("Where conditions are evaluated", EVALUATION)]


@pytest.mark.parametrize(("condition", "place"), CONDITIONS)
def test_a_condition_is_evaluated_where_the_page_says(condition, place):
    found = places(f"SELECT l.id {SIDES} ON l.fee < r.bid AND ({condition}) {WINDOW}")
    assert found == sorted(["index", place], key=["index", "residual", "filter"].index)


def test_every_place_has_examples():
    assert {place for _, place in CONDITIONS} == {"filter", "index", "residual"}
    assert len(CONDITIONS) >= 10


@pytest.mark.parametrize("row", table("The window"), ids=lambda row: row[0])
def test_windows(row):
    clause = code(row[0])
    sql = f"SELECT l.id {SIDES} ON l.price < r.bid AND l.at BETWEEN r.at - INTERVAL '1 s' AND r.at + INTERVAL '1 s' "
    if clause:
        assert query(sql + clause[0]).window.needs_time == ("min" in clause[0])
    else:
        assert isinstance(query(sql).window, IntervalWindow)


@pytest.mark.parametrize("row", table("The select list"), ids=lambda row: row[0])
def test_names_of_results(row):
    (listed,), names = code(row[0]), code(row[1])
    found = [each.name for each in query(f"SELECT {listed} {SIDES} ON l.price < r.bid {WINDOW}").results.select]
    both = schemas()
    expected = [
        name if sum(name in columns for columns in both.values()) == 1 else f"{alias}_{name}"
        for alias, columns in zip("lr", both.values(), strict=True)
        for name in columns
    ]
    assert found == (names or expected)


def test_numbers_and_headers_are_columns():
    sql = f"SELECT l.seq, r.headers['site'] AS site {SIDES} ON l.price < r.bid {WINDOW}"
    streams = {name: {"schema": columns} for name, columns in schemas().items()}
    select = parse_query(yaml.safe_dump({"name": "q", "streams": streams, "sql": sql})).results.select
    assert [str(each.expression.type) for each in select] == ["long", "string"]
    with pytest.raises(ConfigurationError, match="'headers', which records of Kafka have"):
        query(sql)


@pytest.mark.parametrize("row", table("One answer a row")[:9], ids=lambda row: row[0])
def test_what_left_rows_ask(row):
    written = code(row[0])[0]
    listed = "l.id, COUNT(*) AS n" if "GROUP" in written else "l.id"
    on = "l.symbol = r.symbol AND l.at >= r.at" if "ASOF" in written else "l.price < r.bid"
    kind = written if written.endswith("JOIN") else "JOIN"
    behind = written.removeprefix("...") if not written.endswith("JOIN") else ""
    behind = behind.replace("r.price", "r.bid")
    found = query(
        f"SELECT {listed} FROM trades AS l {kind} quotes AS r ON {on} {behind.split('EMIT')[0]} {WINDOW} EMIT ON CLOSE"
    )
    assert found.asks
    assert found.answers.emit is EmitOn.CLOSE


def test_an_example_of_a_question():
    sql = next(each for each in BLOCKS if "ANTI JOIN" in each)
    assert query(sql).answers.join is JoinKind.ANTI


@pytest.mark.parametrize("row", table("Types"), ids=lambda row: row[0])
def test_types_are_known_under_all_their_names(row):
    declared = [parse_type(each.replace("p,s", "9,2"), "a", 1).name for each in code(row[0]) if "(" not in each[:1]]
    others = [parse_type(each.replace("p,s", "9,2"), "a", 1).name for each in code(row[2])]
    assert set(others) <= set(declared)
    assert declared


def test_every_type_is_on_the_page():
    named = {word.partition("(")[0] for row in table("Types") for word in code(row[0])}
    assert {kind.value for kind in TypeName if kind not in (TypeName.MAP, TypeName.CARRIED)} <= named


REFUSED = {
    "aggregates without GROUP BY, GROUP BY of anything but the left row or its declared key": [
        f"SELECT COUNT(*) {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT SUM(l.qty) {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid GROUP BY l.id {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid HAVING l.id > 1 {WINDOW}",
    ],
    "WHERE, aggregates, QUALIFY or ASOF with FULL JOIN": [
        f"SELECT l.id {FULL} ON l.price < r.bid WHERE l.qty > 1 {WINDOW}",
        f"SELECT l.id {FULL} ON l.price < r.bid WHERE r.id IS NULL {WINDOW}",
        f"SELECT l.id, COUNT(*) AS n {FULL} ON l.price < r.bid GROUP BY l {WINDOW}",
        f"SELECT COUNT(*) AS n {FULL} ON l.price < r.bid {WINDOW}",
        f"SELECT l.id {FULL} ON l.fee < r.bid QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.bid) <= 2 {WINDOW}",
        f"SELECT l.id FROM trades AS l ASOF FULL JOIN quotes AS r ON l.price < r.bid {WINDOW}",
    ],
    "DISTINCT, ORDER BY, LIMIT": [
        f"SELECT DISTINCT l.id {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid ORDER BY l.id {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid LIMIT 3 {WINDOW}",
    ],
    "a table on the left side": ["SELECT l.id FROM TABLE(trades) AS l JOIN quotes AS r ON l.price < r.bid"],
    "WITH, other subqueries, UNION, other window functions and QUALIFY": [
        f"WITH a AS (SELECT 1) SELECT l.id {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < (SELECT 1) {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid UNION SELECT l.id {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT row_number() OVER () {SIDES} ON l.price < r.bid {WINDOW}",
        f"SELECT l.id {SIDES} ON l.price < r.bid QUALIFY true {WINDOW}",
    ],
    "a third table": [f"SELECT l.id {SIDES} ON l.price < r.bid JOIN trades AS t ON l.id = t.id {WINDOW}"],
    "USING and NATURAL with FULL JOIN": [
        f"SELECT l.id {FULL} USING (id) {WINDOW}",
        f"SELECT l.id FROM trades AS l NATURAL FULL JOIN quotes AS r {WINDOW}",
    ],
    "only residual conditions": [f"SELECT l.id {SIDES} ON l.price + r.bid > 3 {WINDOW}"],
}


def test_the_page_lists_what_is_tried():
    assert [row[0] for row in table("Errors")] == list(REFUSED)


@pytest.mark.parametrize("sql", [sql for each in REFUSED.values() for sql in each])
def test_what_is_refused_is_refused_in_its_place(sql):
    with pytest.raises(QueryError, match=r"^sql, line 1, column \d+: .*expected") as caught:
        query(sql)
    assert caught.value.column is not None


@pytest.mark.parametrize("call", re.findall(r"`(\w+\(\)|current_\w+)`", section("Functions")))
def test_volatile_functions_are_refused_by_name(call):
    with pytest.raises(QueryError, match=f"function {call.removesuffix('()')}\\(\\) gives another value at each call"):
        query(f"SELECT {call} AS x {SIDES} ON l.price < r.bid {WINDOW}")


def test_the_error_that_is_shown():
    (shown,) = [each.strip() for each in BLOCKS if each.startswith("sql, line")]
    with pytest.raises(QueryError) as caught:
        query(f"SELECT l.prize {SIDES} ON l.price < r.bid {WINDOW}")
    assert str(caught.value) == shown


OF_STREAMS = {"schema", "query", "time", "key", "csv", "envelope"}


def test_options_are_those_of_the_page():
    named = [code(row[0])[0] for row in table("Query files")]
    plain = {"name": "q", "sql": f"SELECT * {SIDES} ON l.price < r.bid {WINDOW}", "streams": schemas()}
    with pytest.raises(QueryError) as caught:
        parse_query(yaml.safe_dump({**plain, "nonsense": 1}))
    assert set(re.findall(r"\w+", str(caught.value).split("expected")[1])) - {"or"} >= set(named) - OF_STREAMS
    assert set(named) >= {"order", "lateness", "output", "limit"} | OF_STREAMS
    assert LIMIT_MAX > 0


INTERVALS = {"-1 min to 2 min": (-60, 120), "1 microsecond to 5 s": (1e-6, 5), "-3 s to 3 s": (-3, 3)}
INTERVALS |= {"0 to 5 min": (0, 300), "0 to 300 s": (-0.004, 300.004), "0 to 5 borders": (-1.25, 6.25)}
INTERVALS |= {"a month back": (-31 * 86_400, 0)}


@pytest.mark.parametrize("row", table("Interval joins"), ids=lambda row: row[0])
def test_bounds_of_event_times(row):
    condition = code(row[0])[0]
    found = query(f"SELECT l.id {SIDES} ON l.symbol = r.symbol AND {condition}").window
    seconds = next((bounds for text, bounds in INTERVALS.items() if row[1].startswith(text)), (0, 0))
    assert (found.lower_us, found.upper_us) == tuple(round(each * 1e6) for each in seconds)


def test_the_query_file_is_valid():
    of_interval, with_table = [parse_query(each) for each in BLOCKS if each.startswith("name:")]
    assert with_table.has_table
    assert isinstance(of_interval.window, IntervalWindow)
