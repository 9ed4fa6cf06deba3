"""NATURAL JOIN as conditions: equal columns of each name that both sides have, of which `*` gives one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.query.statement import Statement
from spojoin.suggest import listed


def with_names(statement: Statement, schemas: Sequence[Mapping[str, object]]) -> Statement:
    """The statement with the equalities that NATURAL means; schemas: the columns of both sides, left first."""
    if not statement.is_natural:
        return statement
    names = [name for name in schemas[0] if name in schemas[1]]
    if not names:
        both = " and ".join(listed(schema) for schema in schemas)
        raise QueryError(f"NATURAL JOIN finds no column on both sides: {both}", statement.right.line)
    equal = [_equal(name, statement) for name in names]
    using = tuple(name.lower() for name in names)
    return replace(statement, conjuncts=(*equal, *statement.conjuncts), using=using)


def _equal(name: str, statement: Statement) -> exp.Expression:
    left, right = (exp.column(name, side.alias) for side in (statement.left, statement.right))
    return exp.EQ(this=left, expression=right)
