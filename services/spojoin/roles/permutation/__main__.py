"""The permutation service as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes a permutation service."""
    return Wiring("permutation", lambda result_position: PermutationMachine(serving.query, result_position))


if __name__ == "__main__":
    leave(main(Role.PERMUTATION, lambda: run({Role.PERMUTATION: wire}, load_settings())))
