"""What no order puts together: times with a zone and without, and categories whose order isn't that of their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import ColumnType, TypeName

_CLOCKS = (TypeName.TIMESTAMP, TypeName.DATE)
#: What orders, subtracts or chooses among its parts.
_TOGETHER = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.In,
    exp.Sub,
    exp.DateDiff,
    exp.Greatest,
    exp.Least,
    exp.Coalesce,
)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Greatest, exp.Least)
#: From a part of an expression to its type; None where it names no column, or has a type that no column has.
KindOf = Callable[[exp.Expression], ColumnType | None]


def check_zones(text: str, parts: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError where `text` compares parts, each with its type, of which one has a time zone and one has none."""
    zoned = next(((part, kind.zone) for part, kind in parts if kind.zone is not None), None)
    naive = next(((part, kind.name) for part, kind in parts if kind.name in _CLOCKS and kind.zone is None), None)
    if zoned is None or naive is None:
        return
    (part, zone), (other, name) = zoned, naive
    moment = other if name is TypeName.TIMESTAMP else f"CAST({other} AS TIMESTAMP)"
    raise QueryError(
        f"'{text}' compares '{part}', which has a time zone, with '{other}', which has none: say the zone of "
        f"'{other}', such as ({moment}) AT TIME ZONE '{zone}', or take '{part}' by the clock of one, such as "
        f"({part}) AT TIME ZONE '{zone}'",
        line,
    )


def check_ranks(text: str, parts: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError where `text` orders categories, whose own order statements don't know."""
    ranked = next((part for part, kind in parts if kind.is_ranked), None)
    if ranked is not None:
        raise QueryError(
            f"'{text}' orders '{ranked}', whose categories have an order of their own, not that of their text: say the "
            f"order, such as CASE {ranked} WHEN 'low' THEN 1 WHEN 'high' THEN 2 END, or compare texts by "
            f"CAST({ranked} AS VARCHAR)",
            line,
        )


def check_clocks(times: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError where event times that put rows in order, each with its type, have a zone and have none."""
    zoned = next(((name, kind.zone) for name, kind in times if kind.zone is not None), None)
    naive = next((name for name, kind in times if kind.name in _CLOCKS and kind.zone is None), None)
    if zoned is not None and naive is not None:
        raise QueryError(
            f"rows are put in order by {zoned[0]}, which has a time zone, and {naive}, which has none: say its zone in "
            f"the schema, as {naive.split('.')[-1]}: timestamptz({zoned[1]}), or join TABLE(...), which has no order",
            line,
        )


def check_zones_within(
    node: exp.Expression, kind_of: KindOf, text_of: Callable[[exp.Expression], str], line: int
) -> None:
    """The same of all comparisons and differences within an expression."""
    for found in node.walk():
        if isinstance(found, _TOGETHER):
            parts = [part for part in found.iter_expressions() if part.find(exp.Column) is not None]
            kinds = [(text_of(part), kind_of(part)) for part in parts]
            known = [(part, kind) for part, kind in kinds if kind is not None]
            check_zones(text_of(found), known, line)
            if isinstance(found, _ORDERED):
                check_ranks(text_of(found), known, line)
