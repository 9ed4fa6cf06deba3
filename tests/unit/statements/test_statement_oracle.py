"""The oracle of statements is checked by a plain nested loop, and by answers counted by hand."""

from random import Random

import pyarrow as pa
import pytest

from tests.support.long import first_of
from tests.support.plain_statements import draw_plain
from tests.support.statement_oracle import StatementOracle
from tests.support.statement_text import Refusable, Undecided

SCHEMA = pa.schema([("n", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("at", pa.timestamp("us"))])


@pytest.mark.parametrize("seed", first_of(40, range(150)))
def test_duckdb_over_numbers_is_the_nested_loop(seed):
    statement = draw_plain(Random(seed))
    tables = {name: pa.Table.from_pylist(list(rows), SCHEMA) for name, rows in zip("ab", statement.rows, strict=False)}
    found = StatementOracle(tables, dict.fromkeys(tables, "at")).expected(statement.sql())
    assert repr(found.rows) == repr(statement.answer()), statement.sql()


def numbers(rows, time=None):
    """An oracle over one stream `a` with texts s and numbers n."""
    return StatementOracle({"a": pa.table({"s": [s for s, _ in rows], "n": [n for _, n in rows]})}, time)


FAILING = "SELECT l.seq, r.seq AS rs, l.s, r.n FROM a AS l JOIN a AS r ON {} WINDOW AS (SLIDE INTERVAL '1' ON '9')"


def test_a_row_without_a_value_takes_no_number():
    found = numbers([("1", 5), ("x", 7), ("3", 6)]).expected(FAILING.format("CAST(l.s AS INTEGER) < r.n"))
    assert found.rows == [(0, 1, "1", 6), (1, 0, "3", 5)]


def test_an_operand_counts_for_rows_that_pass_a_filter_alone():
    rows = [("1", 5), ("x", 0), ("3", 6)]
    found = numbers(rows).expected(FAILING.format("CAST(l.s AS INTEGER) < r.n AND l.n > 0 AND r.n > 0"))
    assert found.rows == [(0, 1, "1", 6), (1, 0, "3", 5)]


def test_a_pair_without_a_value_is_undecided():
    with pytest.raises(Undecided):
        numbers([("1", 5), ("x", 7)]).expected(FAILING.format("l.n < r.n AND CAST(l.s || r.s AS INTEGER) > 0"))


def test_conditions_belong_to_the_side_that_can_answer_them():
    rows = [("a", 1), ("b", 2), ("a", 3)]
    found = numbers(rows).expected(FAILING.format("l.n < r.n AND (r.s = 'a' AND l.s IN ('a', 'b')) AND 1 = 1"))
    assert found.rows == [(0, 2, "a", 3), (1, 2, "b", 3)]


@pytest.mark.parametrize("text", ["l.n < r.n AND 1 = 0", "l.n < r.n AND NULL", "l.n < nosuch(r.n)", "l.n < m", "l < r"])
def test_a_condition_that_says_nothing_is_refused(text):
    with pytest.raises(Refusable):
        numbers([("1", 5)]).expected(FAILING.format(text))


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("*", ("l_s", "l_n", "r_s", "r_n")),
        ("l.*", ("s", "n")),
        ("l.*, r.n AS m, r.seq", ("s", "n", "m", "seq")),
        ("l.s, r.*", ("s", "r_s", "n")),
        ("l.s, r.s", (None, None)),
        ('l.n + r.n, l.n + 1 AS "Next n", l.S t', (None, "Next n", None)),
    ],
)
def test_columns_are_named(items, names):
    text = FAILING.format("l.n < r.n").replace("l.seq, r.seq AS rs, l.s, r.n", items)
    assert numbers([("1", 5)]).expected(text).names == names
