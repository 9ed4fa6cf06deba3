"""Comparisons of integers and decimals with doubles that are exact, though the engine rounds both to doubles.

The index compares them by the integers that stand for the doubles (see `comparable.py`); this is for filters and residual
conditions. Where the rounded values differ, so do the exact ones, in the same direction, since rounding keeps the order.
Where they don't, the double is a whole number or has no more digits than the decimal, and is compared as one of its kind.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spojoin.model import ColumnType, TypeName
from spojoin.query.statement import DIALECT

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_FLOATING = (TypeName.FLOAT, TypeName.DOUBLE)
#: From an expression of the engine's dialect to its type; None where it has none of a column's.
TypeOf = Callable[[str], ColumnType | None]


def compared_exactly(node: exp.Expression, type_of: TypeOf) -> exp.Expression:
    """The expression with each comparison of a whole number or decimal with a double made exact."""

    def exact(found: exp.Expression) -> exp.Expression:
        if isinstance(found, exp.Between) and not found.args.get("symmetric"):
            found = _ends(found)
            return exp.paren(found.transform(exact))
        return _exact(found, type_of) if isinstance(found, _COMPARISONS) else found

    return node.transform(exact)


def _ends(between: exp.Between) -> exp.Expression:
    value, low, high = (between.args[name] for name in ("this", "low", "high"))
    return exp.And(
        this=exp.GTE(this=value.copy(), expression=low.copy()), expression=exp.LTE(this=value.copy(), expression=high.copy())
    )


def _exact(node: exp.Expression, type_of: TypeOf) -> exp.Expression:
    left, right = (type_of(each.sql(dialect=DIALECT, comments=False)) for each in (node.this, node.expression))
    if left is None or right is None:
        return node
    if _is_beyond(left) and right.name in _FLOATING:
        return _rounded_or_exact(node, node.this, node.expression, left)
    if _is_beyond(right) and left.name in _FLOATING:
        return _rounded_or_exact(node, node.expression, node.this, right)
    return node


def _is_beyond(kind: ColumnType) -> bool:
    """Whether a type has values that no double equals."""
    return kind.name in (TypeName.LONG, TypeName.DECIMAL)


def _rounded_or_exact(
    node: exp.Expression, exact: exp.Expression, floating: exp.Expression, kind: ColumnType
) -> exp.Expression:
    """`rounded <> double ? rounded op double : exact op the double's exact value`, sides as they are written."""
    rounded, target = exp.cast(exact.copy(), "DOUBLE"), "HUGEINT"
    if kind.name is TypeName.DECIMAL and kind.scale:
        target = f"DECIMAL(38, {kind.scale})"
    known = exp.TryCast(this=floating.copy(), to=exp.DataType.build(target, dialect=DIALECT))
    is_first = exact is node.this
    both = [(rounded, floating.copy()), (exact.copy(), known)]
    whole, same = (type(node)(this=a, expression=b) if is_first else type(node)(this=b, expression=a) for a, b in both)
    differ = exp.NEQ(this=rounded.copy(), expression=floating.copy())
    return exp.paren(exp.Case(ifs=[exp.If(this=differ, true=whole)], default=same))
