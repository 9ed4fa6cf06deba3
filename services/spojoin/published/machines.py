"""The other half of the door: the machines of what stands in for the product's own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

from spojoin.model import Query
from spojoin.protocol.topology import Topic
from spojoin.published.door import StandIn, stand_in
from spojoin.published.evaluation import Evaluation, Loads
from spojoin.published.layouts.load import WorkDone
from spojoin.published.layouts.machine import LayoutMachine
from spojoin.published.layouts.own_loads import MethodLoads
from spojoin.published.layouts.workers import Workers, needs_hot_keys, workers_of
from spojoin.published.methods.machine import MethodMachine
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import summed

_Make = TypeVar("_Make")


def evaluation(query: Query, workers: int, own: Callable[[Query, int], Evaluation]) -> Evaluation:
    """How one process evaluates a query with this many workers; `own` builds the product's own way."""
    match stand_in(query):
        case StandIn.LAYOUT:
            return _by_layout(query, workers)
        case StandIn.METHOD:
            return _by_method(query)
        case StandIn.NOTHING:
            return own(query, workers)


def worker(query: Query, own: _Make) -> _Make | type[LayoutMachine]:
    """The factory of a PO-Join process's machines: `own`, or one for the workers of the query's layout."""
    return LayoutMachine if stand_in(query) is StandIn.LAYOUT else own


def _by_layout(query: Query, workers: int) -> Evaluation:
    machines = workers_of(query, workers)
    return Evaluation(
        searching=machines,
        readers={Topic.FRAMES: machines},
        loads=_SelfCounted(machines),
        counters=lambda: summed(machine.search_counters() for machine in machines),
        needs_hot_keys=needs_hot_keys(query),
    )


def _by_method(query: Query) -> Evaluation:
    machine = MethodMachine(query, SIDES[query.method.name])
    return Evaluation([machine], {Topic.FRAMES: [machine]}, MethodLoads(query, [machine]), machine.counters)


class _SelfCounted(Loads):
    """The loads of workers that count their own."""

    def __init__(self, machines: Workers) -> None:
        self._machines = machines

    def loads(self) -> list[WorkDone]:
        each: Sequence[list[WorkDone]] = [machine.loads() for machine in self._machines]
        return list(chain.from_iterable(each))
