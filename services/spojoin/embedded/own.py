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
    # The caller has the logical AND to do, and each worker a helper: pieces of it pay where there are more.
    runner_of_and = IN_TURN if runner.threads <= 1 + workers else runner
    permutation, logical_and = PermutationMachine(query, START), LogicalAndMachine(query, START, runner_of_and)
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
        # What workers find waits for the logical AND, which waits for joiners: counts may, partners would fill memory.
        apart=[*searching, *joiners] if query.output is Output.COUNT else searching,
    )
