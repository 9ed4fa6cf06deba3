"""The logical AND as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes a logical AND."""
    query, runner = serving.query, serving.runner
    return Wiring("logical-and", lambda result_position: LogicalAndMachine(query, result_position, runner))


if __name__ == "__main__":
    leave(main(Role.LOGICAL_AND, lambda: run({Role.LOGICAL_AND: wire}, load_settings())))
