"""Answers computed from a row's partners in plain Python: sums of fractions, and orders by sorting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from spojoin.model import Aggregate, Best, EmitOn, JoinKind, PairExpression, Query, SortKey, TypeName

#: Enough digits for any sum. The checker has its own context, since it judges the product's.
_EXACT = Context(prec=60)
#: A row of the pairs, or of the answers, by the names of columns.
Row = dict[str, Any]
#: Names of columns: an aggregate's argument, its order's key, its filter and its value; a key that orders the choice.
_ARGUMENT, _ORDER, _FILTER, _VALUE, _SORT_KEY, _WHERE = "p{}_{}", "q{}_{}", "f{}", "a{}", "o{}", "w"


def aggregates(query: Query) -> dict[str, Aggregate]:
    """The aggregates by the names of their columns."""
    grouped = query.answers.grouped
    return {} if grouped is None else {_VALUE.format(k): one for k, one in enumerate(grouped.aggregates)}


def needed(query: Query) -> dict[str, PairExpression]:
    """The expressions of partners that aggregates and their order need, by the names of their columns."""
    found: dict[str, PairExpression] = {}
    for number, one in enumerate(aggregates(query).values()):
        found |= {_ARGUMENT.format(number, k): argument for k, argument in enumerate(one.arguments)}
        found |= {_ORDER.format(number, k): key.expression for k, key in enumerate(one.order)}
        if one.filter is not None:
            found[_FILTER.format(number)] = one.filter
    best, where = query.answers.best, query.answers.where
    if best is not None:
        found |= {_SORT_KEY.format(number): key.expression for number, key in enumerate(best.order)}
    if where is not None:
        found[_WHERE] = where
    return found


def answers(query: Query, rows: Iterable[Row]) -> Iterator[Row]:
    """The answers before HAVING and the select list; ends of spans pass unchanged.

    rows: for each row that asks, first the row without a partner, then its pairs, ascending by the partner
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
    asked = query.answers
    if query.both_ask and own["is_right"] and asked.emit is EmitOn.CLOSE:
        return [] if pairs else [own]  # left rows give the pairs
    if asked.grouped is not None:
        if asked.join is JoinKind.INNER and not pairs:
            return []
        found = pairs or [own]  # SQL's outer join has a row of NULLs, which COUNT(*) counts
        return [own | {name: _value(one, k, found) for k, (name, one) in enumerate(aggregates(query).items())}]
    if asked.join in (JoinKind.SEMI, JoinKind.ANTI):
        return [own] if bool(pairs) is (asked.join is JoinKind.SEMI) else []
    if asked.best is not None:
        pairs = _best(asked.best, pairs)
    found = pairs if pairs or asked.join is JoinKind.INNER else [own]
    return found if asked.where is None else [row for row in found if row[_WHERE]]


def _best(best: Best, pairs: list[Row]) -> list[Row]:
    names = [_SORT_KEY.format(number) for number in range(len(best.order))]
    found = _in_order(pairs, names, best.order)
    if best.has_ties and found:
        return [row for row in found if all(_same(row[name], found[0][name]) for name in names[:-1])]
    return found[: best.count]


def _in_order(rows: Sequence[Row], names: Sequence[str], keys: Sequence[SortKey]) -> list[Row]:
    found = list(rows)
    for name, key in reversed(list(zip(names, keys, strict=True))):
        nulls = [row for row in found if row[name] is None]
        there = sorted(
            (row for row in found if row[name] is not None),
            key=lambda row: _ordered(row[name]),
            reverse=key.is_descending,
        )
        found = nulls + there if key.nulls_first else there + nulls
    return found


def _same(one: object, other: object) -> bool:
    return one is other if one is None or other is None else bool(_ordered(one) == _ordered(other))


def _value(one: Aggregate, number: int, rows: Sequence[Row]) -> object:
    names = [_ARGUMENT.format(number, k) for k in range(len(one.arguments))]
    if one.filter is not None:
        rows = [row for row in rows if row[_FILTER.format(number)]]
    rows = _in_order(rows, [_ORDER.format(number, k) for k in range(len(one.order))], one.order)
    given = [[row[name] for name in names] for row in rows]
    takes_nulls = one.function.name in ("first", "last", "list")
    found = given if takes_nulls else [values for values in given if None not in values]
    if one.is_distinct:
        kept: dict[object, list[Any]] = {}
        for values in found:
            kept.setdefault(None if values[0] is None else _ordered(values[0]), values)
        found = list(kept.values())
    if one.function.name == "count":
        return len(found)
    return _of_values(one, found) if found else None


def _of_values(one: Aggregate, found: list[list[Any]]) -> object:
    first = [values[0] for values in found]
    value: object
    match one.function.name:
        case "sum":
            value = _sum(first, is_exact=one.type.name is TypeName.DECIMAL)
        case "avg":
            value = _rounded(first, len(first))
        case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop" as name:
            numbers, is_root = list(map(float, first)), name.startswith("stddev")
            value = _spread(numbers, is_sample=name.endswith("_samp"), is_root=is_root)
        case "quantile_disc":
            assert one.share is not None, "a quantile has a share"
            value = sorted(first, key=_ordered)[max(math.ceil(one.share * len(first)) - 1, 0)]
        case "max" | "arg_max":
            value = max(found, key=lambda values: _ordered(values[-1]))[0]
        case "min" | "arg_min":
            value = min(found, key=lambda values: _ordered(values[-1]))[0]
        case "first" | "any_value":
            value = first[0]
        case "last":
            value = first[-1]
        case "list":
            value = first
        case "string_agg":
            value = one.separator.join(first)
        case name:
            raise AssertionError(f"the checker has no {name}")
    return value


def _spread(values: list[float], *, is_sample: bool, is_root: bool) -> float | None:
    """A variance or its root, rounded as the statement's page promises; None for too few values."""
    count = len(values)
    if count <= int(is_sample):
        return None
    mean = _rounded(values, count)
    apart = [value - mean for value in values]
    squares, rest = _rounded([each * each for each in apart], 1), _rounded(apart, 1)
    found = max(squares - rest * rest / count, 0.0) / (count - is_sample)
    return math.sqrt(found) if is_root else found


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
    """The exact sum divided by a count, rounded once; values that are not finite follow IEEE."""
    if not all(map(math.isfinite, values)):
        return float(sum(value for value in values if not math.isfinite(value)))
    exact = sum(map(Fraction, values)) / count
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
