"""EXPLAIN of statements: where each condition is evaluated, and what a row of a window takes."""

import io
import itertools
import math

import pyarrow as pa
import pytest
from rich.console import Console

from spojoin.errors import ConfigurationError
from spojoin.explain.footprint import HELD_ROOM, TEXT_MEAN_BYTES
from spojoin.explain.plan import explain, render
from spojoin.query.load import parse_query
from tests.support.query_texts import TRIPS, typed

PRICED = """\
name: priced
streams:
  a:
    schema: {g: long, d: double, s: string, i: int, p: 'decimal(10,2)', u: uuid, b: boolean, day: date, at: timestamp}
sql: |
  SELECT l.s, r.d + 1 AS more, l.i, l.p, r.u, l.b, l.day, l.at FROM a AS l JOIN a AS r
  ON l.g < r.g AND lower(l.s) = lower(r.s)
  WHERE l.d > 5 AND l.d < r.d * r.g + l.g AND r.d > 1
  WINDOW AS (SLIDE INTERVAL '1' ON '1000')
"""


def shown(plan) -> str:
    console = Console(file=io.StringIO(), width=250)
    render(plan, console)
    return console.file.getvalue()


def test_each_condition_says_where_it_is_evaluated():
    plan = explain(parse_query(PRICED))
    assert [(each.text, each.where) for each in plan.conditions] == [
        ("l.d > 5", "filter of the left side: other rows take no number"),
        ("r.d > 1", "filter of the right side: other rows take no number"),
        ("l.g < r.g", "index"),
        ("LOWER(l.s) = LOWER(r.s)", "index"),
        ("l.d < r.d * r.g + l.g", "residual: pairs are listed and filtered"),
    ]
    assert [each.compared for each in plan.conditions] == ["", "", "int64", "numbers of values", ""]
    text = shown(plan)
    assert "residual: pairs are listed and filtered" in text
    assert "priced: self join of a\n" in text


def test_conditions_that_windows_hold():
    text = typed("l.i = r.i AND r.at BETWEEN l.at AND l.at + INTERVAL '5 s'")
    text = text.replace("  WINDOW AS (SLIDE INTERVAL '10' ON '100')\n", "")
    plan = explain(parse_query(text))
    assert [(each.text, each.where) for each in plan.conditions] == [
        ("l.i = r.i", "index"),
        ("r.at >= l.at", "held by the windows: evaluated by no service"),
        ("r.at <= l.at + INTERVAL '5' SECOND", "held by the windows: evaluated by no service"),
    ]


def test_the_payload_of_a_row():
    """Of each side the columns that its results, residual conditions and numbered keys need; texts are assumed."""
    left, right = explain(parse_query(PRICED)).rows
    widths = {"s": 8 + TEXT_MEAN_BYTES, "i": 4, "p": 16, "b": 1, "day": 4, "at": 8, "d": 8, "g": 8}
    lowered = {'(LOWER("s"))': 8 + TEXT_MEAN_BYTES}
    assert {column.name: column.bytes_row for column in left.payload} == widths | lowered
    assert {column.name: column.bytes_row for column in right.payload} == {"d": 8, "g": 8, "u": 44} | lowered
    assert left.held == HELD_ROOM * (8 + sum(widths.values()) + 8 + TEXT_MEAN_BYTES)
    assert left.indexed > 0
    assert {column.name for column in left.payload if column.source == "assumed"} == {"s", *lowered}
    assert f"texts are assumed to have {TEXT_MEAN_BYTES} bytes; --sample measures them" in shown(
        explain(parse_query(PRICED))
    )


def test_counts_hold_no_rows_and_pairs_their_keys():
    (row,) = explain(parse_query(TRIPS.replace("output: pairs", "output: count").replace("limit: 1000", ""))).rows
    assert (row.held, row.payload) == (0, ())
    (row, _) = explain(parse_query(typed("l.i < r.i") + "output: pairs\n")).rows
    assert (row.held, row.payload) == (HELD_ROOM * 16, ())


def test_state_of_the_sink_grows_with_the_payload():
    few, many = (
        next(state for state in explain(parse_query(text)).state if state.service == "sink")
        for text in (PRICED.replace("l.p, ", ""), PRICED)
    )
    assert many.bytes_each - few.bytes_each == HELD_ROOM * 16 * 1000
    assert "the rows of the windows" in many.holds


def test_a_sample_measures_texts_and_selectivities():
    rows = [
        {"g": g, "d": d, "s": s}
        for g, (d, s) in enumerate(itertools.product([0.5, 2.0, 7.0, None], ["a", "BBB", "b", None]))
    ]
    query = parse_query(PRICED)
    plan = explain(
        query,
        {
            "a": pa.Table.from_pylist(rows)
            .append_column("u", pa.nulls(len(rows), pa.string()))
            .append_column("i", pa.array([1] * len(rows)))
            .append_column("p", pa.array([1] * len(rows)))
            .append_column("b", pa.array([True] * len(rows)))
            .append_column("day", pa.nulls(len(rows), pa.date32()))
            .append_column("at", pa.nulls(len(rows), pa.timestamp("us")))
        },
    )
    s = next(column for column in plan.rows[0].payload if column.name == "s")
    assert (s.source, s.bytes_row) == ("measured", 8 + 4 * (1 + 3 + 1) / 16)
    left = [row for row in rows if row["d"] is not None and row["d"] > 5]
    right = [row for row in rows if row["d"] is not None and row["d"] > 1]
    pairs = [(one, other) for one in left for other in right if one is not other]
    less = [one["g"] < other["g"] and None not in (one["s"], other["s"]) for one, other in pairs]
    same = [None not in (one["s"], other["s"]) and one["s"].lower() == other["s"].lower() for one, other in pairs]
    assert plan.selectivity.passing == (len(left) / len(rows), len(right) / len(rows))
    assert plan.selectivity.each == pytest.approx((sum(less) / len(pairs), sum(same) / len(pairs)))
    assert plan.selectivity.whole == pytest.approx(sum(map(min, less, same)) / len(pairs))
    assert math.isclose(plan.conditions[0].selectivity, 0.25)


def test_a_filter_that_no_row_of_the_sample_passes():
    query = parse_query(typed("l.i < r.i AND l.i > 100"))
    table = pa.table({"i": [1, 2, 3]})
    with pytest.raises(ConfigurationError, match="stream 'a' has fewer than two rows that pass its filter"):
        explain(query, {"a": table, "b": table})


TIERED = """\
name: tiered
streams: {orders: {schema: {id: long, amount: long}}}
tables: {tiers: {SOURCE, schema: {low: long, level: long}}}
sql: SELECT l.id, r.level FROM orders AS l JOIN tiers AS r ON l.amount >= r.low
"""


def test_a_table_says_what_a_version_costs():
    plan = explain(parse_query(TIERED.replace("SOURCE", "topic: reference")))
    assert plan.window_rules == (
        "a row of orders answers once, as it comes, about all rows of the table tiers",
        "a version is the whole table: 24,000,000 bytes in the log, and as many in batches, where it has 1,000,000 "
        "rows; while it replaces another, both are held",
    )
    assert "window the whole table tiers; order arrival; output rows" in shown(plan)
    assert max(state.bytes_each for state in plan.state) < 1e9
    assert {topic.name for topic in plan.topics} >= {"in.orders", "reference", "reference.dlq"}


def test_a_tables_file_is_no_topic():
    plan = explain(parse_query(TIERED.replace("SOURCE", "file: tiers.csv")))
    assert not [topic.name for topic in plan.topics if topic.name.startswith("in.tiers")]
