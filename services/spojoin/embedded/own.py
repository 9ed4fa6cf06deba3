"""The product's own way to evaluate frames, in one process."""

from __future__ import annotations

from time import perf_counter

from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import Output, Query
from spojoin.protocol.machine import START
from spojoin.protocol.topology import Topic
from spojoin.published.evaluation import Evaluation
from spojoin.published.layouts.own_loads import BatchLoads
from spojoin.published.methods.side import summed
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.pojoin.machine import PoJoinMachine


def by_batches(query: Query, workers: int, runner: TaskRunner = IN_TURN) -> Evaluation:
    """Mutable joiners and their logical AND for new tuples, PO-Join workers for what is batched."""
    searching = [PoJoinMachine(query, worker, START, timer=perf_counter, runner=runner) for worker in range(workers)]
    joiners = [MutableMachine(query, predicate, START) for predicate in range(len(query.predicates))]
    permutation = PermutationMachine(query, START)
    logical_and = LogicalAndMachine(query, START, IN_TURN if _are_busy(query, workers, runner) else runner)
    return Evaluation(
        searching=searching,
        readers={
            Topic.FRAMES: [*joiners, logical_and, *searching],
            Topic.RUNS: [permutation],
            Topic.BATCHES: searching,
            Topic.PARTIALS: [logical_and],
        },
        loads=BatchLoads(query, searching),
        counters=lambda: summed(machine.counters() for machine in searching),
        apart=[*searching, *joiners],
    )


def _are_busy(query: Query, workers: int, runner: TaskRunner) -> bool:
    """Whether each thread has enough to do without pieces of the logical AND: the caller's with it, one a worker."""
    return query.output is Output.COUNT and runner.threads <= 1 + workers
