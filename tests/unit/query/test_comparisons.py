"""Codes of both sides of an index condition compare as the values do: exactly, NaN greatest, NULL never."""

import datetime as dt
import itertools
import math
import operator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from spojoin.columns.extract import extract
from spojoin.explain.selectivity import holds
from spojoin.model import Domain
from spojoin.query.load import parse_query
from tests.support.query_texts import typed

OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
DOUBLES = [2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, -(2.0**64), 0.0, -0.0, 0.1, 0.5, 1.0, -1.5, 5e-324]
DOUBLES += [-5e-324, 1e300, math.inf, -math.inf, math.nan, -math.nan, math.nextafter(2.0**63, 0), 12.34, None]
LONGS = [2**53, 2**53 + 1, 2**53 - 1, 2**63 - 1, 2**63 - 1024, -(2**63), -(2**63) + 1, 0, 1, -1, -2, None]
VALUES = {
    "i": [0, 1, -1, 2**31 - 1, -(2**31), None],
    "g": LONGS,
    "d": DOUBLES,
    "f": [0.0, 0.5, -1.5, math.inf, math.nan, 2.0**53, None],
    "p": [Decimal(text) for text in ("0.00", "0.10", "0.50", "12.34", "-1.50", "99999999.99")] + [None],
    "q": [Decimal(text) for text in ("0.0000", "0.1000", "12.3400", "0.0001", "-1.5000")] + [None],
    "day": [dt.date(2013, 1, 1), dt.date(1969, 12, 31), dt.date(2013, 1, 2), None],
    "at": [dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 1, 0, 0, 0, 1), dt.datetime(1969, 12, 31, 23), None],
}
NUMBERS = ["i", "g", "d", "f", "p", "q"]
PAIRS = [*itertools.product(NUMBERS, NUMBERS), *itertools.product(["day", "at"], ["day", "at"])]


def value(one):
    """A value that Python compares exactly; NaN above all others."""
    if isinstance(one, float):
        return (1, 0) if math.isnan(one) else (0, Fraction(one) if math.isfinite(one) else one)
    if isinstance(one, dt.date) and not isinstance(one, dt.datetime):
        return 0, dt.datetime(one.year, one.month, one.day)
    return 0, Fraction(one) if isinstance(one, int | Decimal) else one


def batch(column: str, rows: list, arrow=None) -> pa.RecordBatch:
    return pa.record_batch({column: pa.array(rows, arrow)})


def matches(condition: str, left: tuple[str, list], right: tuple[str, list]) -> list[list[bool]]:
    """By row of the left and of the right side, whether the codes say that the index condition holds."""
    query = parse_query(typed(condition))
    sides = []
    for stream, (column, rows) in zip(query.streams, (left, right), strict=True):
        got = extract(stream, batch(column, rows), False)
        assert got.refused == []
        joins = [True] * len(rows) if got.joins is None else (got.joins > 0).tolist()
        sides.append((got.codes, joins))
    (predicate,) = query.predicates
    assert predicate.domain in (Domain.INTEGER, Domain.FLOAT)
    one, other = sides[0][0][predicate.left_slot], sides[1][0][predicate.right_slot]
    found = holds(predicate, one[:, None], other[None, :]).tolist()
    return [
        [m and a and b for m, b in zip(row, sides[1][1], strict=True)]
        for row, a in zip(found, sides[0][1], strict=True)
    ]


def _within(rows: list, *, is_narrow: bool) -> list:
    return [one for one in rows if not (is_narrow and isinstance(one, int) and abs(one) > 2**49)]


@pytest.mark.parametrize(("left", "right"), PAIRS, ids="-".join)
def test_every_type_with_every_other(left: str, right: str):
    """Longs among decimals are those whose codes 64 bits hold: rows beyond are refused."""
    rows = {side: _within(VALUES[side], is_narrow=bool({left, right} & {"p", "q"})) for side in (left, right)}
    for sign, compare in OPERATORS.items():
        mixed = {left, right} & {"d", "f"} and {left, right} & {"g", "p", "q"}
        if sign == "<>" and mixed:
            continue  # a residual condition
        expected = [
            [a is not None and b is not None and compare(value(a), value(b)) for b in rows[right]] for a in rows[left]
        ]
        found = matches(f"l.{left} {sign} r.{right}", (left, rows[left]), (right, rows[right]))
        assert found == expected, sign


@pytest.mark.parametrize("sign", ["<", "<="])
def test_a_band_with_a_nan_or_a_null_is_not_true(sign: str):
    rows = [0.0, 1.0, 2.0, math.nan, None, math.inf]
    found = matches(f"ABS(l.d - r.d) {sign} 1", ("d", rows), ("d", rows))
    finite = [a is not None and math.isfinite(a) for a in rows]
    for k, j in itertools.product(range(6), repeat=2):
        expected = finite[k] and finite[j] and OPERATORS[sign](abs(rows[k] - rows[j]), 1)
        assert found[k][j] == expected, (rows[k], rows[j])


COMPUTED = [
    ("l.i % 3 = r.i", "i", "i", lambda a, b: math.fmod(a, 3) == b),
    ("l.g * l.g < r.g", "g", "g", lambda a, b: a * a < b),
    ("l.i / 2 < r.i", "i", "i", lambda a, b: Fraction(a, 2) < b),
    ("sqrt(l.i) >= r.d", "i", "d", lambda a, b: math.sqrt(a) >= b),
    ("l.day + 1 <= r.at", "day", "at", lambda a, b: dt.datetime(a.year, a.month, a.day) + dt.timedelta(1) <= b),
    ("ABS(l.i % 5 - r.i) <= 1", "i", "i", lambda a, b: abs(math.fmod(a, 5) - b) <= 1),
    ("ABS(CAST(l.at AS DATE) - r.day) <= INTERVAL '1 day'", "at", "day", lambda a, b: abs((a.date() - b).days) <= 1),
]


@pytest.mark.parametrize(("condition", "left", "right", "expected"), COMPUTED)
def test_computed_sides(condition: str, left: str, right: str, expected):
    rows = {"i": [0, 1, 2, 7, None], "g": [0, 3, 10, -4, None], "d": [0.0, 1.5, 2.0, None]}
    rows |= {
        "day": [dt.date(2013, 1, 1), dt.date(2013, 1, 4), None],
        "at": [dt.datetime(2013, 1, 2), dt.datetime(2013, 1, 3, 5), None],
    }
    found = matches(condition, (left, rows[left]), (right, rows[right]))
    assert found == [
        [a is not None and b is not None and bool(expected(a, b)) for b in rows[right]] for a in rows[left]
    ]
