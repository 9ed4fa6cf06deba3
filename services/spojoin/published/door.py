"""The door: the only place that asks whether a query is evaluated by the product's own way or by a published one.

This half is plain data, for whoever reads, checks or explains a query; `machines` is the half that makes machines.
"""

from __future__ import annotations

import enum

from spojoin.errors import QueryError
from spojoin.model import DEFAULT_LAYOUT, DEFAULT_METHOD, Query
from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.suggest import listed


class StandIn(enum.Enum):
    """What takes the place of the product's mutable part, batches and PO-Join workers."""

    NOTHING = enum.auto()
    METHOD = enum.auto()
    LAYOUT = enum.auto()


def stand_in(query: Query) -> StandIn:
    """What stands in where the query is evaluated. A layout's workers search by the query's method themselves."""
    if query.layout.name != DEFAULT_LAYOUT:
        return StandIn.LAYOUT
    return StandIn.NOTHING if query.method.name == DEFAULT_METHOD else StandIn.METHOD


def explained(query: Query) -> str:
    """What EXPLAIN must add where something stands in; nothing by the product's own way."""
    match stand_in(query):
        case StandIn.LAYOUT:
            return _BY_LAYOUT.format(query.layout.name)
        case StandIn.METHOD:
            return _BY_METHOD.format(query.method.name)
        case StandIn.NOTHING:
            return ""


_BY_LAYOUT = (
    "layout {}: each worker holds its share of the window, and nothing is mutable or batched; batches, index, state "
    "and topics below are those of layout batch"
)
_BY_METHOD = (
    "method {}: `spojoin run` holds the window in one part, services don't run it, and nothing is mutable or batched; "
    "batches, index, state and topics below are those of method spo"
)


def check_method(query: Query, line: int | None = None) -> None:
    """Raises QueryError where a number of workers has no effect: a method that stands in searches alone."""
    if query.layout.workers and stand_in(query) is StandIn.METHOD:
        raise QueryError(
            f"method {query.method.name!r} takes the place of all workers of layout {query.layout.name!r}, so that "
            f"workers: {query.layout.workers} says nothing: remove it, or name a layout whose workers search by a "
            "method, such as 'split_join'",
            line,
        )


def check_served(query: Query, source: str) -> None:
    """Raises QueryError where services can't run a query; `source` names it."""
    choice = query.layout
    if not LAYOUTS[choice.name].is_served:
        served = listed([about.name for about in LAYOUTS.values() if about.is_served])
        raise QueryError(
            f"{source}: layout {choice.name!r} runs in `spojoin run` only; the services run {served}: "
            "name one of these, or remove 'layout'"
        )
    if stand_in(query) is StandIn.METHOD:
        raise QueryError(
            f"{source}: method {query.method.name!r} runs in `spojoin run` only: remove 'method' for the services, "
            f"whose own is {DEFAULT_METHOD!r}"
        )
