"""Comparisons of integers and decimals with doubles in filters and residual conditions, against Python's exact ones."""

import math
import operator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.expressions.engine import DuckdbEvaluator
from spojoin.expressions.types import value_type
from spojoin.model import ColumnType, TypeName
from spojoin.query.load import parse_query
from tests.support.query_texts import typed

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LONGS = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63 - 512, -(2**63), -(2**53) - 1, 0, 1, -1]
DOUBLES = [
    float(2**53),
    2.0**53 + 2,
    2.0**63,
    -(2.0**63),
    -(2.0**64),
    0.0,
    -0.0,
    0.5,
    1.0,
    math.inf,
    -math.inf,
    math.nan,
]
DOUBLES += [0.1, 0.25, 12.34, 99999999.99, 5e-324, 1e300, -0.1, -0.25, 12345678901234.5, 0.3, -12.34, None]
DECIMALS = [Decimal(text) for text in ("0.1000", "0.2500", "12.3400", "99999999.9900", "12345678901234.5000", "0.3000")]
DECIMALS += [-each for each in DECIMALS] + [Decimal("0.0000"), Decimal("12345678901234.4998"), Decimal("0.0001")]


def holds(compare, exact, double) -> bool | None:
    """By value; NaN equals itself and is above all numbers."""
    if exact is None or double is None:
        return None
    if math.isnan(double):
        return compare(0, 1)
    return compare(
        Fraction(exact) if math.isfinite(double) else 0, Fraction(double) if math.isfinite(double) else double
    )


def found(condition: str, exact_type: ColumnType, pairs) -> list:
    """The filter of side l that a statement makes of a condition on its columns g or q, and d."""
    stream = parse_query(typed(f"l.i < r.i AND {condition}")).streams[0]
    name = "g" if exact_type.name is TypeName.LONG else "q"
    columns = {name: exact_type, "d": ColumnType(TypeName.DOUBLE)}
    arrays = [pa.array([pair[k] for pair in pairs], value_type(kind)) for k, kind in enumerate(columns.values())]
    evaluated = DuckdbEvaluator([stream.filter.condition.sql], columns)(
        pa.table(dict(zip(columns, arrays, strict=True)))
    )
    assert not evaluated.failures
    return evaluated.values[0].to_pylist()


KINDS = [(ColumnType(TypeName.LONG), "l.g", LONGS), (ColumnType(TypeName.DECIMAL, 18, 4), "l.q", DECIMALS)]


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize(("kind", "name", "values"), KINDS, ids=["long", "decimal"])
def test_every_operator_compares_by_value(sign: str, kind: ColumnType, name: str, values: list):
    pairs = [(exact, double) for exact in [*values, None] for double in DOUBLES]
    expected = [holds(OPERATORS[sign], *pair) for pair in pairs]
    assert found(f"{name} {sign} l.d", kind, pairs) == expected
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
    assert found(f"(l.d) {mirrored} {name}", kind, pairs) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(-3, 3)), min_size=1, max_size=30))
def test_decimals_and_the_doubles_next_to_them(numbers):
    pairs = []
    for number, steps in numbers:
        exact = Decimal(number).scaleb(-4)
        double = float(exact)
        for _ in range(abs(steps)):
            double = math.nextafter(double, math.inf if steps > 0 else -math.inf)
        pairs.append((exact, double))
    for sign, compare in OPERATORS.items():
        assert found(f"l.q {sign} l.d", KINDS[1][0], pairs) == [holds(compare, *pair) for pair in pairs]


def test_within_other_expressions():
    kind = KINDS[0][0]
    pairs = [(2**53 + 1, 2.0**53), (2**53, 2.0**53), (5, 7.5), (None, 1.0)]
    assert found("l.g BETWEEN l.d AND l.d + 1", kind, pairs) == [False, True, False, None]
    assert found("NOT (l.g = l.d OR l.g + 1 < l.d)", kind, pairs) == [True, False, False, None]
    assert found("CASE WHEN l.g > l.d THEN true ELSE false END", kind, pairs) == [True, False, False, False]


def test_a_residual_inequality_is_exact():
    query = parse_query(typed("l.i < r.i AND (l.g <> r.d OR l.i > r.i)"))
    (residual,) = query.residuals
    columns = {"0.g": ColumnType(TypeName.LONG), "1.d": ColumnType(TypeName.DOUBLE)}
    columns |= {"0.i": ColumnType(TypeName.INT), "1.i": ColumnType(TypeName.INT)}
    table = pa.table({"0.g": [2**53 + 1, 2**53], "1.d": [2.0**53, 2.0**53], "0.i": [0, 0], "1.i": [1, 1]})
    assert DuckdbEvaluator([residual.sql], columns)(table).values[0].to_pylist() == [True, False]
    assert residual.text == "l.g <> r.d OR l.i > r.i"


LITERALS = ["0.1", "0.3", "-0.3", "2.5", "9007199254740993", "-9007199254740993", "0.12345678901234567", "99999999.995"]


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("literal", LITERALS)
def test_a_literal_compares_by_value(sign: str, literal: str):
    near = float(literal)
    doubles = [*DOUBLES, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
    pairs = [(0, double) for double in doubles]
    expected = [holds(lambda a, b: OPERATORS[sign](b, a), Decimal(literal), double) for double in doubles]
    kind = ColumnType(TypeName.LONG)
    assert found(f"l.d {sign} {literal}", kind, pairs) == expected
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
    assert found(f"{literal} {mirrored} l.d", kind, pairs) == expected
