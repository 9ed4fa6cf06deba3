"""What would drown or stop a query costs its row, with the reason, and no other row."""

import sys
import time

import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import QueryError
from spojoin.expressions.engine import DuckdbEvaluator, connected
from spojoin.expressions.evaluator import evaluator
from spojoin.expressions.limits import BYTES_MAX, LOOK_S, SECONDS_MAX, watched
from spojoin.model import ColumnType, TypeName

COLUMNS = {"i": ColumnType(TypeName.LONG), "s": ColumnType(TypeName.STRING)}
HUGE = 1_000_000_000


def evaluated(sql, numbers, text="ab"):
    table = pa.table({"i": pa.array(numbers, pa.int64()), "s": [text] * len(numbers)})
    return DuckdbEvaluator([sql], COLUMNS)(table)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("repeat(s, i)", "ababab"),
        ("lpad(s, CAST(i AS INTEGER), '-')", "-ab"),
        ("rpad(s, CAST(i AS INTEGER), '-')", "ab-"),
        ("len(range(i))", 3),
        ("len(range(0, i))", 3),
        ("len(range(i * 2, i, -1))", 3),
        ("len(generate_series(1, i))", 3),
        ("len(generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-01' + to_hours(i), INTERVAL 1 HOUR))", 4),
        ("len(list_resize([1], i))", 3),
        ("length(bitstring('1', CAST(i AS INTEGER)))", 3),
    ],
)
def test_a_row_that_makes_too_much_has_no_value(sql, value):
    found = evaluated(sql, [3, HUGE, 3])
    assert found.values[0].to_pylist() == [value, None, value]
    assert [each.row for each in found.failures] == [1]
    assert f"would make more than {BYTES_MAX:,} bytes of one row" in found.failures[0].why


def test_a_text_that_grows_by_its_replacement_is_held():
    found = evaluated("strlen(replace(repeat(s, i), 'a', repeat('b', i)))", [2, 100_000])
    assert found.values[0].to_pylist() == [6, None]
    assert "replace() would make more" in found.failures[0].why


def test_functions_that_compare_each_pair_of_characters_are_held():
    found = evaluated("levenshtein(repeat(s, i), 'b' || repeat(s, i))", [2, 100_000])
    assert found.values[0].to_pylist() == [1, None]
    assert "levenshtein() would take more than 100,000,000 steps" in found.failures[0].why


def test_a_row_that_takes_too_long_stands_alone():
    deep = "list_sum(list_transform(range(i), lambda x: list_sum(range(i + x))))"
    found = evaluated(deep, [3, 3, 60_000, 3])  # no range is longer than one row may be
    assert [each.row for each in found.failures] == [2]
    assert found.failures[0].why == f"it takes more than {SECONDS_MAX:g} s of processor time"
    assert found.values[0][0].as_py() == found.values[0][3].as_py() == 19


def test_without_a_limit_of_time_a_row_has_its_value_however_long_it_takes(monkeypatch):
    monkeypatch.setattr("spojoin.expressions.limits.SECONDS_MAX", 0.0)
    deep = "list_sum(list_transform(range(i), lambda x: list_sum(range(i + x))))"
    rows = pa.table({"i": pa.array([6_000], pa.int64()), "s": ["a"]})
    timed, untimed = (evaluator([deep], COLUMNS, is_timed=is_timed)(rows) for is_timed in (True, False))
    assert (timed.values[0].to_pylist(), len(timed.failures)) == ([None], 1)
    assert (untimed.values[0].null_count, untimed.failures) == (0, [])


@pytest.mark.parametrize(("join", "pairs"), [("FULL JOIN", [(6_000, 1)]), ("LEFT JOIN", [(6_000, None)])])
def test_no_clock_judges_a_pair_that_is_judged_twice(monkeypatch, join, pairs):
    monkeypatch.setattr("spojoin.expressions.limits.SECONDS_MAX", 0.0)
    deep = "list_sum(list_transform(range(l.i), lambda x: list_sum(range(l.i + r.k + x)))) > 0"
    found = spojoin.sql(
        f"SELECT l.i, r.k FROM a AS l {join} b AS r ON l.i > r.k AND {deep}", a={"i": [6_000]}, b={"k": [1]}
    ).to_arrow()
    assert [tuple(row.values()) for row in found.to_pylist()] == pairs


def test_a_value_that_is_missing_takes_no_other_expressions_value():
    asked = ["CAST(s AS BIGINT)", "10 // i", "CAST(i AS VARCHAR) || s", "repeat(s, i)"]
    table = pa.table({"i": pa.array([1, 2, HUGE, 4], pa.int64()), "s": ["7", "x", "8", "9"]})
    found = DuckdbEvaluator(asked, COLUMNS)(table)
    assert [each.to_pylist() for each in found.values] == [
        [7, None, 8, 9],
        [10, 5, 0, 2],
        ["17", "2x", f"{HUGE}8", "49"],
        ["7", "xx", None, "9999"],
    ]
    assert [each.row for each in found.failures] == [1, 2]


def test_texts_that_fill_no_array_together_are_taken_apart(monkeypatch):
    evaluator = DuckdbEvaluator(["repeat(s, i)"], COLUMNS)
    tried, whole = evaluator._tried, []

    def small(columns, query):
        whole.append(columns.num_rows)
        return tried(columns, query) if columns.num_rows <= 2 else "its value is too long"

    monkeypatch.setattr(evaluator, "_tried", small)
    table = pa.table({"i": pa.array([1] * 5, pa.int64()), "s": ["ab"] * 5})
    assert evaluator(table).values[0].to_pylist() == ["ab"] * 5
    assert whole[0] == 5


@pytest.mark.parametrize("call", [f"repeat('x', {HUGE})", f"lpad('x', {HUGE}, 'y')", f"len(range({HUGE}))"])
def test_a_constant_that_makes_too_much_is_refused_at_the_start(call):
    rows = pa.table({"i": [1, 2]})
    with pytest.raises(QueryError, match="would make more than"):
        spojoin.sql(f"SELECT {call} AS x FROM t AS l JOIN TABLE(t) AS r ON l.i = r.i", t=rows)


@pytest.mark.parametrize(
    "call", ["format('{:1000000000}', l.i)", "printf('%1000000000d', l.i)", "format('{:{}}', 1, l.i)"]
)
def test_formats_of_great_width_are_refused(call):
    rows = pa.table({"i": [1, 2]})
    with pytest.raises(QueryError, match="pads to more than 9,999"):
        spojoin.sql(f"SELECT {call} AS x FROM t AS l JOIN TABLE(t) AS r ON l.i = r.i", t=rows)


def test_it_costs_the_row_of_a_statement():
    rows = pa.table({"i": [1, 2, HUGE]})
    results = spojoin.sql("SELECT r.i FROM t AS l JOIN TABLE(t) AS r ON l.i = r.i AND repeat('x', l.i) <> 'xx'", t=rows)
    with pytest.warns(UserWarning, match="would make more than"):
        assert results.to_arrow().to_pydict() == {"i": [1]}
    assert results.rejected == {"expression": 1}


def test_what_was_looked_at_is_not_kept():
    """A connection that a thread still holds when the process ends is reported on standard error, line by line."""
    connection = connected()
    with watched(connection, "SELECT 1"):
        time.sleep(5 * LOOK_S)
    for _ in range(100):
        if sys.getrefcount(connection) == 2:  # this name's, and the call's
            return
        time.sleep(LOOK_S)
    pytest.fail("the watching thread keeps it")
