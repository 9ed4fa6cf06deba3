"""One PO-Join worker, or the worker of another layout, as a process."""

from __future__ import annotations

from functools import partial
from time import perf_counter

from spojoin.evaluation.choices import stand_in
from spojoin.protocol.topology import Role
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.pojoin.worker import MakeWorker, PoJoinWorker
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the worker with the number in the settings."""
    query = serving.query
    worker = numbered(settings, "worker", settings.workers_max)
    own = partial(PoJoinMachine, timer=perf_counter, runner=serving.runner)
    make: MakeWorker = own if (other := stand_in(query)) is None else other.worker(query)
    return Wiring(f"pojoin-{worker}", lambda result_position: PoJoinWorker(query, worker, result_position, make))


if __name__ == "__main__":
    leave(main(Role.POJOIN, lambda: run({Role.POJOIN: wire}, load_settings())))
