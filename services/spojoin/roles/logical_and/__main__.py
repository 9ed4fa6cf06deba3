"""The logical AND as a process."""

from __future__ import annotations

from functools import partial

from spojoin.protocol.services import Rotation, names_from_one
from spojoin.protocol.topology import Role, mutable_partition
from spojoin.roles.logical_and.answering import AnsweringAnd
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the logical AND with the number in the settings, 0 if it is alone."""
    query, runner, count = serving.query, serving.runner, settings.logical_ands
    if settings.has_answerers:
        partition_of = partial(mutable_partition, workers_max=settings.workers_max)
        return Wiring(
            Role.LOGICAL_AND, lambda result_position: AnsweringAnd(query, result_position, partition_of, runner)
        )
    number = numbered(settings, "logical_and", count) if count > 1 else 0
    partition = mutable_partition(number, settings.workers_max)
    return Wiring(
        names_from_one(Role.LOGICAL_AND, count)[number],
        lambda result_position: LogicalAndMachine(query, result_position, Rotation(number, count), partition, runner),
    )


if __name__ == "__main__":
    leave(main(Role.LOGICAL_AND, lambda: run({Role.LOGICAL_AND: wire}, load_settings())))
