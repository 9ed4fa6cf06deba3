"""One mutable joiner as a process."""

from __future__ import annotations

from spojoin.protocol.services import joiner_count, share_of_joiner
from spojoin.protocol.topology import Role
from spojoin.roles.mutable.answering import READS, AnsweringJoiner
from spojoin.roles.mutable.machine import Joiner
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the joiner with the number in the settings."""
    query = serving.query
    if settings.has_answerers:
        worker = numbered(settings, "worker", settings.workers_max)
        return Wiring(
            Role.MUTABLE,
            lambda result_position: AnsweringJoiner(query, worker, result_position),
            reads=READS,
        )
    joiners = joiner_count(len(query.predicates), settings.joiners)
    joiner = numbered(settings, "joiner", joiners)
    predicates, turn = share_of_joiner(joiner, joiners, len(query.predicates))
    return Wiring(f"mutable-{joiner}", lambda result_position: Joiner(query, predicates, result_position, turn))


if __name__ == "__main__":
    leave(main(Role.MUTABLE, lambda: run({Role.MUTABLE: wire}, load_settings())))
