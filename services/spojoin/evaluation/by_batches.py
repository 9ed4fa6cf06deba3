"""The product's own way to evaluate frames, in one process."""

from __future__ import annotations

from time import perf_counter

from spojoin.evaluation.interface import EvaluationMachines, summed
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import Output, Query
from spojoin.protocol.grid import Grid
from spojoin.protocol.machine import START
from spojoin.protocol.packed_machine import Fellow
from spojoin.protocol.topology import Role, Topic
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.pojoin.machine import PoJoinMachine


def batch_machines(query: Query, workers: int, runner: TaskRunner = IN_TURN) -> EvaluationMachines:
    """Mutable joiners and their logical AND for new tuples, PO-Join workers for batched ones."""
    grid = Grid(1, workers)
    searching = [PoJoinMachine(query, number, START, grid, perf_counter, runner) for number in range(workers)]
    joiners = [MutableMachine(query, predicate, START) for predicate in range(len(query.predicates))]
    # The caller runs the logical AND, and a helper each worker: dividing the AND pays only if there are more threads.
    runner_of_and = IN_TURN if runner.threads <= 1 + workers else runner
    permutation, logical_and = PermutationMachine(query, START), LogicalAndMachine(query, START, runner=runner_of_and)
    return EvaluationMachines(
        searching=searching,
        fellows=[
            *(Fellow(Role.MUTABLE, joiner, reads=frozenset({Topic.FRAMES})) for joiner in joiners),
            Fellow(Role.LOGICAL_AND, logical_and, reads=frozenset({Topic.FRAMES, Topic.PARTIALS})),
            Fellow(Role.PERMUTATION, permutation, reads=frozenset({Topic.RUNS})),
            *(Fellow(Role.POJOIN, worker, reads=frozenset({Topic.FRAMES, Topic.BATCHES})) for worker in searching),
        ],
        counters=lambda: summed(machine.counters() for machine in searching),
        # Workers' matches wait for the logical AND, which waits for joiners: counts may, partners would fill memory.
        apart=[*searching, *joiners] if query.results.output is Output.COUNT else searching,
    )
