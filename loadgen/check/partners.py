"""What becomes of the partners of a row that asks, in plain Python: sums of fractions, orders by sorting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from spojoin.model import Aggregate, Best, EmitOn, JoinKind, PairExpression, Query, TypeName

#: A row of the pairs, or of the answers, by the names of columns.
Row = dict[str, Any]
#: Names of columns: an aggregate's argument, its filter, its value, and a key by which partners are sorted.
_ARGUMENT, _FILTER, _VALUE, _SORT_KEY, _WHERE = "p{}_{}", "f{}", "a{}", "o{}", "w"

#: More digits than any sum has.
_EXACT = Context(prec=60)


def aggregates(query: Query) -> dict[str, Aggregate]:
    """The aggregates by the names of their columns."""
    return {} if query.grouped is None else {_VALUE.format(k): one for k, one in enumerate(query.grouped.aggregates)}


def needed(query: Query) -> dict[str, PairExpression]:
    """What partners give to aggregates and to their order, by the names of its columns."""
    found: dict[str, PairExpression] = {}
    for number, one in enumerate(aggregates(query).values()):
        found |= {_ARGUMENT.format(number, k): argument for k, argument in enumerate(one.arguments)}
        if one.filter is not None:
            found[_FILTER.format(number)] = one.filter
    if query.best is not None:
        found |= {_SORT_KEY.format(number): key.expression for number, key in enumerate(query.best.order)}
    if query.where is not None:
        found[_WHERE] = query.where
    return found


def answers(query: Query, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows that rows which ask give, before HAVING and the select list; ends of spans as they are.

    rows: for each of them in turn one of its own, without a partner, then its pairs, ascending by the partner
    """
    own: Row | None = None
    pairs: list[Row] = []
    for row in rows:
        if row["is_pair"]:
            pairs.append(row)
            continue
        if own is not None:
            yield from _answer(query, own, pairs)
        own, pairs = (None, []) if row["is_end"] else (row, [])
        if row["is_end"]:
            yield row
    if own is not None:
        yield from _answer(query, own, pairs)


def _answer(query: Query, own: Row, pairs: list[Row]) -> list[Row]:
    if query.both_ask and own["is_right"] and query.emit is EmitOn.CLOSE:
        return [] if pairs else [own]  # left rows give the pairs
    if query.grouped is not None:
        if query.join is JoinKind.INNER and not pairs:
            return []
        found = pairs or [own]  # SQL's outer join has a row of NULLs, which COUNT(*) counts
        return [own | {name: _value(one, k, found) for k, (name, one) in enumerate(aggregates(query).items())}]
    if query.join in (JoinKind.SEMI, JoinKind.ANTI):
        return [own] if bool(pairs) is (query.join is JoinKind.SEMI) else []
    if query.best is not None:
        pairs = _best(query.best, pairs)
    found = pairs if pairs or query.join is JoinKind.INNER else [own]
    return found if query.where is None else [row for row in found if row[_WHERE]]


def _best(best: Best, pairs: list[Row]) -> list[Row]:
    found = pairs
    for number, key in reversed(list(enumerate(best.order))):
        name = _SORT_KEY.format(number)
        nulls = [row for row in found if row[name] is None]
        there = sorted(
            (row for row in found if row[name] is not None),
            key=lambda row: _ordered(row[name]),
            reverse=key.is_descending,
        )
        found = nulls + there if key.nulls_first else there + nulls
    if best.has_ties and found:
        names = [_SORT_KEY.format(number) for number in range(len(best.order) - 1)]
        return [row for row in found if all(_same(row[name], found[0][name]) for name in names)]
    return found[: best.count]


def _same(one: object, other: object) -> bool:
    return one is other if one is None or other is None else bool(_ordered(one) == _ordered(other))


def _value(one: Aggregate, number: int, rows: Sequence[Row]) -> object:
    names = [_ARGUMENT.format(number, k) for k in range(len(one.arguments))]
    if one.filter is not None:
        rows = [row for row in rows if row[_FILTER.format(number)]]
    given = [[row[name] for name in names] for row in rows]
    found = [values for values in given if None not in values]
    if one.function == "count":
        return len(found)
    return _of_values(one, found) if found else None


def _of_values(one: Aggregate, found: list[list[Any]]) -> object:
    first = [values[0] for values in found]
    match one.function:
        case "sum":
            return _sum(first, is_exact=one.type.name is TypeName.DECIMAL)
        case "avg":
            return _rounded(first, len(first))
        case "quantile_disc":
            assert one.share is not None, "a quantile has a share"
            return sorted(first, key=_ordered)[max(math.ceil(one.share * len(first)) - 1, 0)]
        case "max" | "arg_max":
            return max(found, key=lambda values: _ordered(values[-1]))[0]
        case _:
            return min(found, key=lambda values: _ordered(values[-1]))[0]


def _ordered(value: Any) -> tuple[bool, Any]:  # noqa: ANN401  (of any type that SQL orders)
    """A value as Python sorts it: NaN is the greatest number."""
    is_nan = value != value  # noqa: PLR0124
    return is_nan, 0.0 if is_nan else value


def _sum(values: list[Any], *, is_exact: bool) -> Decimal | float:
    if not is_exact:
        return _rounded(values, 1)
    total = sum(map(Fraction, values))
    scale = max((-int(value.as_tuple().exponent) for value in values if isinstance(value, Decimal)), default=0)
    return _EXACT.scaleb(Decimal(int(total * 10**scale)), -scale)


def _rounded(values: list[Any], count: int) -> float:
    """The exact sum divided by a count, rounded once; what is not finite follows IEEE."""
    if not all(map(math.isfinite, values)):
        return float(sum(value for value in values if not math.isfinite(value)))
    exact = sum(map(Fraction, values)) / count
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
