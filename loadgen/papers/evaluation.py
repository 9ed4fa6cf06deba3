"""The papers' methods and layouts as an `Evaluation`, which the product finds by this distribution's entry point.

Kernels and machines are imported on demand, since there are many methods and layouts and most queries need none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loadgen.papers.layouts.catalog import LAYOUTS
from loadgen.papers.methods.catalog import METHODS
from spojoin.errors import QueryError
from spojoin.evaluation.interface import Evaluation, EvaluationMachines, RecordObserver, summed
from spojoin.model import DEFAULT_LAYOUT, DEFAULT_METHOD, Query
from spojoin.protocol.packed_machine import Fellow
from spojoin.protocol.topology import Role, Topic
from spojoin.search_plan import SearchPlan
from spojoin.suggest import listed

if TYPE_CHECKING:
    from spojoin.protocol.frame_evaluation import Guide
    from spojoin.protocol.machine import Machine, WindowMachine


class PapersEvaluation(Evaluation):
    """Evaluates by the query's layout, whose workers apply the method; without a layout, by the method alone."""

    methods = METHODS
    layouts = LAYOUTS

    def check(self, query: Query, line: int | None = None) -> None:
        """Refuse a layout without the key that it needs, workers that a method can't use, and left rows that ask."""
        if self.layouts[query.layout.name].needs_key and SearchPlan(query).key_slots is None:
            raise QueryError(
                f"layout {query.layout.name!r} spreads tuples by a key, and no condition is an equality on one: add "
                "one such as l.key = r.key (in a self join on the same column on both sides), or choose another "
                "layout, such as 'dp'",
                line,
            )
        if query.layout.workers and not _is_by_layout(query):
            raise QueryError(
                f"method {query.method.name!r} replaces all workers of layout {query.layout.name!r}, so "
                f"workers: {query.layout.workers} has no effect: remove it, or name a layout whose workers search by a "
                "method, such as 'split_join'",
                line,
            )
        if query.asks:
            chosen = f"layout {query.layout.name!r}" if _is_by_layout(query) else f"method {query.method.name!r}"
            raise QueryError(
                f"{chosen} gives each pair when its later row comes, and nothing else: remove it, or EMIT ON CLOSE, "
                "outer, SEMI, ANTI and ASOF joins, GROUP BY, QUALIFY and tables",
                line,
            )

    def check_served(self, query: Query, source: str) -> None:
        """Refuse methods and layouts that run in one process only."""
        if not self.layouts[query.layout.name].is_served:
            served = listed([about.name for about in self.layouts.values() if about.is_served])
            raise QueryError(
                f"{source}: layout {query.layout.name!r} runs in `spojoin run` only; the services run {served}: "
                "name one of these, or remove 'layout'"
            )
        if not _is_by_layout(query):
            raise QueryError(
                f"{source}: method {query.method.name!r} runs in `spojoin run` only: remove 'method' to run services, "
                f"which search by {DEFAULT_METHOD!r}"
            )

    def explained(self, query: Query) -> str:
        """The parts of a plan's description that don't apply."""
        if _is_by_layout(query):
            return (
                f"layout {query.layout.name}: each worker holds its share of the window, and nothing is mutable or "
                f"batched; batches, index, state and topics below describe layout {DEFAULT_LAYOUT}"
            )
        return (
            f"method {query.method.name}: `spojoin run` holds the window in one part, services don't run it, and "
            "nothing is mutable or batched; batches, index, state and topics below describe method "
            f"{DEFAULT_METHOD}"
        )

    def machines(self, query: Query, workers: int) -> EvaluationMachines:
        """The machines of a layout's workers, or a method's single machine."""
        if _is_by_layout(query):
            from loadgen.papers.layouts.machine import needs_hot_keys, workers_of  # noqa: PLC0415

            each = workers_of(query, workers)
            return EvaluationMachines(
                searching=each,
                fellows=[_worker(machine) for machine in each],
                counters=lambda: summed(machine.search_counters() for machine in each),
                needs_hot_keys=needs_hot_keys(query),
            )
        from loadgen.papers.methods.machine import SIDES, MethodMachine  # noqa: PLC0415

        machine = MethodMachine(query, SIDES[query.method.name])
        return EvaluationMachines([machine], [_worker(machine)], machine.counters)

    def worker(self, query: Query) -> Callable[..., WindowMachine]:
        """A layout's worker; methods aren't served."""
        from loadgen.papers.layouts.machine import LayoutMachine  # noqa: PLC0415

        return LayoutMachine

    def guide(self, query: Query) -> Guide:
        """For two of the layouts."""
        from loadgen.papers.layouts.calibration import guide_of  # noqa: PLC0415

        return guide_of(query)

    def observer(self, query: Query, machines: EvaluationMachines) -> RecordObserver:
        """The accounts of the layout's costs."""
        from loadgen.papers.layouts.accounts import Accounts  # noqa: PLC0415

        return Accounts(query, machines)


def _is_by_layout(query: Query) -> bool:
    return query.layout.name != DEFAULT_LAYOUT


def _worker(machine: Machine) -> Fellow:
    return Fellow(Role.POJOIN, machine, reads=frozenset({Topic.FRAMES}))
