"""The door: the only place that knows whether a query runs the product's own way or a published one.

This half is plain data for code that reads, checks or explains a query; the other half, `machines`, makes machines.
"""

from __future__ import annotations

import enum

from spojoin.errors import QueryError
from spojoin.model import DEFAULT_LAYOUT, DEFAULT_METHOD, Query
from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.suggest import listed


class StandIn(enum.Enum):
    """What replaces the product's mutable part, batches and PO-Join workers."""

    NOTHING = enum.auto()
    METHOD = enum.auto()
    LAYOUT = enum.auto()


def stand_in(query: Query) -> StandIn:
    """What stands in for the product's own way. A layout's workers apply the query's method themselves."""
    if query.layout.name != DEFAULT_LAYOUT:
        return StandIn.LAYOUT
    return StandIn.NOTHING if query.method.name == DEFAULT_METHOD else StandIn.METHOD


def explained(query: Query) -> str:
    """What EXPLAIN adds where something stands in; empty for the product's own way."""
    match stand_in(query):
        case StandIn.LAYOUT:
            return _BY_LAYOUT.format(query.layout.name)
        case StandIn.METHOD:
            return _BY_METHOD.format(query.method.name)
        case StandIn.NOTHING:
            return ""


_BY_LAYOUT = (
    "layout {}: each worker holds its share of the window, and nothing is mutable or batched; batches, index, state "
    "and topics below describe layout batch"
)
_BY_METHOD = (
    "method {}: `spojoin run` holds the window in one part, services don't run it, and nothing is mutable or batched; "
    "batches, index, state and topics below describe method spo"
)


def check_method(query: Query, line: int | None = None) -> None:
    """Raises QueryError if a worker count would have no effect: a method that stands in searches alone."""
    if query.layout.workers and stand_in(query) is StandIn.METHOD:
        raise QueryError(
            f"method {query.method.name!r} replaces all workers of layout {query.layout.name!r}, so "
            f"workers: {query.layout.workers} has no effect: remove it, or name a layout whose workers search by a "
            "method, such as 'split_join'",
            line,
        )


def check_asks(query: Query, line: int | None = None) -> None:
    """Raises QueryError where left rows ask, which only the product's own way answers."""
    if query.asks and stand_in(query) is not StandIn.NOTHING:
        chosen = (
            f"layout {query.layout.name!r}" if stand_in(query) is StandIn.LAYOUT else f"method {query.method.name!r}"
        )
        raise QueryError(
            f"{chosen} gives each pair when its later row comes, and nothing else: remove it, or EMIT ON CLOSE, outer, "
            "SEMI, ANTI and ASOF joins, GROUP BY, QUALIFY and tables",
            line,
        )


def check_served(query: Query, source: str) -> None:
    """Raises QueryError if the services can't run the query; `source` names its origin."""
    choice = query.layout
    if not LAYOUTS[choice.name].is_served:
        served = listed([about.name for about in LAYOUTS.values() if about.is_served])
        raise QueryError(
            f"{source}: layout {choice.name!r} runs in `spojoin run` only; the services run {served}: "
            "name one of these, or remove 'layout'"
        )
    if stand_in(query) is StandIn.METHOD:
        raise QueryError(
            f"{source}: method {query.method.name!r} runs in `spojoin run` only: remove 'method' to run services, "
            f"which search by {DEFAULT_METHOD!r}"
        )
