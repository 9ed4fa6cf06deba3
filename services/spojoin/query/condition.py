"""A statement's condition and window together: predicates, key columns, and the windows of an interval join."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spojoin.model import Interval, KeyColumn, Predicate, Window
from spojoin.query.interval import Bound, TimeColumn, interval_of, is_held, time_bound, window_of
from spojoin.query.operands import Scope
from spojoin.query.predicates import KeyTable, build_predicate
from spojoin.query.statement import Statement


@dataclass(frozen=True, slots=True)
class Condition:
    """What a pair must satisfy. keys: the key columns of one stream (self join) or two; `interval` as in `Query`."""

    predicates: tuple[Predicate, ...]
    keys: tuple[list[KeyColumn], ...]
    window: Window
    interval: Interval | None


def read_condition(statement: Statement, scope: Scope, window: Window | None, line: int) -> Condition:
    """The condition of a statement; where it has no window clause, event times must bound it; `line` is the error's."""
    predicates, keys = _predicates(statement, scope)
    if window is not None:
        return Condition(predicates, keys, window, None)
    bounds = [_time_bound(p, keys, scope) for p in predicates]
    interval = interval_of((b for b in bounds if b is not None), line)
    if is_held(interval, len(keys) == 1) and None in bounds:
        held = tuple(p.text for p, b in zip(predicates, bounds, strict=True) if b is not None)
        rest = tuple(node for node, b in zip(statement.conjuncts, bounds, strict=True) if b is None)
        predicates, keys = _predicates(replace(statement, conjuncts=rest), scope)
        interval = replace(interval, held=held)
    return Condition(predicates, keys, window_of(interval), interval)


def _predicates(statement: Statement, scope: Scope) -> tuple[tuple[Predicate, ...], tuple[list[KeyColumn], ...]]:
    keys = KeyTable(([],) if scope.streams[0] == scope.streams[1] else ([], []))
    return tuple(build_predicate(node, scope, keys) for node in statement.conjuncts), keys.columns


def _time_bound(predicate: Predicate, keys: tuple[list[KeyColumn], ...], scope: Scope) -> Bound | None:
    left, right = keys[0][predicate.left_slot], keys[-1][predicate.right_slot]
    return time_bound(predicate, left, right, [_time_column(scope, side) for side in (0, 1)])


def _time_column(scope: Scope, side: int) -> TimeColumn:
    name = scope.times[side]
    declared = scope.schemas[side].get(name) if name is not None else None
    return TimeColumn(name, declared.name if declared is not None else None)
