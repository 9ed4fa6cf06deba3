"""`a IS NOT DISTINCT FROM b` as two equalities: of values, with something in place of NULL, and of being NULL."""

from __future__ import annotations

from sqlglot import exp

from spojoin.expressions.types import duckdb_type
from spojoin.model import ColumnType, TypeName
from spojoin.query.computed import of_side, uses_of
from spojoin.query.scope import Scope
from spojoin.query.statement import DIALECT

#: A value of each type; whether it is there, or NULL, the other condition tells.
_VALUES = {
    TypeName.DATE: "1970-01-01",
    TypeName.TIMESTAMP: "1970-01-01",
    TypeName.STRING: "",
    TypeName.BINARY: "",
    TypeName.BOOLEAN: "false",
    TypeName.UUID: "00000000-0000-0000-0000-000000000000",
}


def null_safe(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """The conditions that are true where this one is; itself where it is no such comparison of both sides."""
    if not isinstance(node, exp.NullSafeEQ):
        return [node]
    parts = node.this, node.expression
    if [len({use.side for use in uses_of(part, scope)}) for part in parts] != [1, 1]:
        return [node]
    filled = [_filled(part, of_side(part, scope).type) for part in parts]
    nulls = [exp.paren(exp.Is(this=part.copy(), expression=exp.Null())) for part in parts]
    return [exp.EQ(this=a, expression=b) for a, b in (filled, nulls)]


def _filled(node: exp.Expression, kind: ColumnType) -> exp.Expression:
    value = exp.Literal.string(_VALUES.get(kind.name, "0"))
    target = exp.DataType.build(duckdb_type(kind), dialect=DIALECT)
    return exp.Coalesce(this=node.copy(), expressions=[exp.Cast(this=value, to=target)])
