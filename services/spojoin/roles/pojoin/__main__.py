"""One PO-Join worker as a process, or the worker of a published layout in its place."""

from __future__ import annotations

from functools import partial
from time import perf_counter

from spojoin.protocol.topology import Role
from spojoin.published.machines import worker as worker_of
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.pojoin.worker import Make, PoJoinWorker
from spojoin.runtime.generations import Serving
from spojoin.runtime.service import leave, main
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the worker that the settings name."""
    query = serving.query
    worker = numbered(settings, "worker", settings.workers_max)
    make: Make = worker_of(query, partial(PoJoinMachine, timer=perf_counter, runner=serving.runner))
    return Wiring(f"pojoin-{worker}", lambda result_position: PoJoinWorker(query, worker, result_position, make))


if __name__ == "__main__":
    leave(main(Role.POJOIN))
