"""One mutable joiner as a process."""

from __future__ import annotations

from spojoin.mutable.machine import MutableMachine
from spojoin.protocol.topology import Role
from spojoin.runtime.generations import Serving
from spojoin.runtime.service import leave, main
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the joiner of the predicate that the settings name."""
    query = serving.query
    predicate = numbered(settings, "predicate", len(query.predicates))
    return Wiring(f"mutable-{predicate}", lambda watermark: MutableMachine(query, predicate, watermark))


if __name__ == "__main__":
    leave(main(Role.MUTABLE))
