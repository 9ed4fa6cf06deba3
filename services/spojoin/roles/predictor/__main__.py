"""The predictor as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack

from spojoin.protocol.topology import Role
from spojoin.roles.predictor.app import PredictorService, quiet_faust
from spojoin.roles.predictor.faust_kafka import credentials
from spojoin.runtime.process import exit_status, main
from spojoin.runtime.query_to_serve import choose_query
from spojoin.runtime.service import open_world
from spojoin.runtime.settings import Settings, load_settings
from spojoin.telemetry import log_lines

SERVICE = "predictor"

#: Nothing waits for a plan, so the predictor yields the cores to other services.
NICENESS = 10


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit status of `runtime.service.run`."""
    return exit_status(lambda: _serve(settings))


def _serve(settings: Settings) -> None:
    found = choose_query(settings)
    credentials(settings.kafka_properties())
    log_lines.configure(settings.log_level, SERVICE, found.query.name)
    quiet_faust()
    os.nice(NICENESS)
    with ExitStack() as stack:
        world = open_world((Role.PREDICTOR,), SERVICE, found.query.name, settings, stack)
        asyncio.run(_until_signalled(PredictorService(found, settings, world)))


async def _until_signalled(service: PredictorService) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await service.run(stop)


if __name__ == "__main__":
    sys.exit(main(Role.PREDICTOR, lambda: serve(load_settings())))
