"""Two results are compared row by row in order, however they are cut into batches."""

from random import Random

import pyarrow as pa
import pytest

from loadgen.check import ordered_rows
from loadgen.check.ordered_rows import RowComparison

ROWS = [(number // 3, None if number % 7 == 0 else number * 0.5, f"t{number % 4}") for number in range(400)]
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("t", pa.string())])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(ordered_rows, "PIECE_ROWS", 16)


def batches(rows, seed, schema=SCHEMA):
    rng, at = Random(seed), 0
    while at < len(rows):
        end = at + rng.choice((0, 1, 5, 40))
        columns = zip(*rows[at:end], strict=True) if rows[at:end] else [[] for _ in schema]
        arrays = [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        at = end


def compared(found, expected=ROWS, **options):
    return RowComparison(**options).compare(batches(expected, 1), batches(found, 2))


def test_the_same_rows_are_the_same_list():
    outcome = compared([*ROWS])
    assert outcome.is_same
    assert (outcome.expected, outcome.found, outcome.right, outcome.surplus, outcome.misordered) == (
        400,
        400,
        400,
        0,
        0,
    )


def without(at):
    return ROWS[:at] + ROWS[at + 1 :]


def swapped(at):
    return [*ROWS[:at], ROWS[at + 5], *ROWS[at + 1 : at + 5], ROWS[at], *ROWS[at + 6 :]]


#: By name, the rows found, and of the outcome: missing, surplus, misordered, the place of the first difference.
DIFFERENCES = {
    "missing": (without(100), 1, 0, 0, 100),
    "missing at the beginning": (without(0), 1, 0, 0, 0),
    "missing at the end": (ROWS[:-1], 1, 0, 0, 399),
    "twice": ([*ROWS[:100], ROWS[99], *ROWS[100:]], 0, 1, 0, 100),
    "more at the end": ([*ROWS, ROWS[3]], 0, 1, 0, 400),
    "another value": ([*ROWS[:50], (17, -1.0, "t"), *ROWS[51:]], 1, 1, 0, 50),
    "another order": (swapped(200), 0, 0, 2, 200),
    "nothing": ([], 400, 0, 0, 0),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_found_and_counted(name):
    found, missing, surplus, misordered, place = DIFFERENCES[name]
    outcome = compared(found)
    assert not outcome.is_same
    assert (outcome.expected - outcome.right, outcome.surplus, outcome.misordered) == (missing, surplus, misordered)
    assert outcome.first.startswith(f"result row {place} is ")
    assert len(outcome.first) < 100


def test_results_that_are_not_all_out_may_be_fewer_but_not_others():
    assert compared(ROWS[:350], goes_on=True).is_same
    assert not compared(without(100)[:350], goes_on=True).is_same
    assert not compared([*ROWS, ROWS[0]], goes_on=True).is_same


def test_nan_is_equal_to_itself():
    rows = [(1, float("nan"), "a"), (2, 0.5, "b")]
    assert compared(rows, rows).is_same
    assert compared([rows[0], (2, 0.5, "c")], rows).first == "result row 1 is (2, 0.5, 'c'); expected (2, 0.5, 'b')"
