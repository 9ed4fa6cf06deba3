"""All workers of a layout in one process, for the embedded engine and the simulator."""

from __future__ import annotations

from spojoin.model import Query
from spojoin.protocol.machine import START
from spojoin.published.layouts.handshake import HandshakeChain
from spojoin.published.layouts.machine import LayoutMachine
from spojoin.published.layouts.registry import LAYOUTS

HANDSHAKE = "handshake"

Workers = list[LayoutMachine] | list[HandshakeChain]


def workers_of(query: Query, workers: int) -> Workers:
    """The machines of a published layout: one for each worker, or one for a whole chain."""
    if query.layout.name == HANDSHAKE:
        return [HandshakeChain(query, workers)]
    return [LayoutMachine(query, worker, START, workers) for worker in range(workers)]


def needs_hot_keys(query: Query) -> bool:
    """Whether the query's layout needs a predictor's hot keys."""
    return query.layout.name in LAYOUTS and LAYOUTS[query.layout.name].needs_hot_keys
