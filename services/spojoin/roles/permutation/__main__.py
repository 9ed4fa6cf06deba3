"""The permutation service as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.service import leave, main
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes it."""
    return Wiring("permutation", lambda result_position: PermutationMachine(serving.query, result_position))


if __name__ == "__main__":
    leave(main(Role.PERMUTATION))
