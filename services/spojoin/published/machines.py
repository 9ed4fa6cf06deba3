"""The other half of the door: the machines of what stands in for the product's own way.

They are imported where a query asks for them: methods and layouts are many, and most queries need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from spojoin.model import Query
from spojoin.protocol.topology import Topic
from spojoin.published.door import StandIn, stand_in
from spojoin.published.evaluation import Evaluation, Loads
from spojoin.published.layouts.load import WorkDone
from spojoin.published.methods.side import summed

if TYPE_CHECKING:
    from spojoin.published.layouts.machine import LayoutMachine
    from spojoin.published.layouts.workers import Workers

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
    if stand_in(query) is not StandIn.LAYOUT:
        return own
    from spojoin.published.layouts.machine import LayoutMachine  # noqa: PLC0415

    return LayoutMachine


def _by_layout(query: Query, workers: int) -> Evaluation:
    from spojoin.published.layouts.workers import needs_hot_keys, workers_of  # noqa: PLC0415

    machines = workers_of(query, workers)
    return Evaluation(
        searching=machines,
        readers={Topic.FRAMES: machines},
        loads=_SelfCounted(machines),
        counters=lambda: summed(machine.search_counters() for machine in machines),
        needs_hot_keys=needs_hot_keys(query),
    )


def _by_method(query: Query) -> Evaluation:
    from spojoin.published.layouts.own_loads import MethodLoads  # noqa: PLC0415
    from spojoin.published.methods.machine import MethodMachine  # noqa: PLC0415
    from spojoin.published.methods.registry import SIDES  # noqa: PLC0415

    machine = MethodMachine(query, SIDES[query.method.name])
    return Evaluation([machine], {Topic.FRAMES: [machine]}, MethodLoads(query, [machine]), machine.counters)


class _SelfCounted(Loads):
    """The loads of workers that count their own."""

    def __init__(self, machines: Workers) -> None:
        self._machines = machines

    def loads(self) -> list[WorkDone]:
        each: Sequence[list[WorkDone]] = [machine.loads() for machine in self._machines]
        return list(chain.from_iterable(each))
