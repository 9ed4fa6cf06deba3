"""The sink as a process."""

from __future__ import annotations

from spojoin.protocol.machine import Idle
from spojoin.protocol.services import names_from_one
from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.roles.sink.machine import SinkMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.registry import check_single_rows, result_writer_of
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes a sink; one beyond those of the generation waits for the next."""
    query, generation = serving.query, serving.generation
    check_single_rows(query, settings.results_format)
    if settings.sink is not None and settings.sink >= serving.sinks:
        return Wiring(f"{Role.SINK}-{settings.sink}", lambda _: Idle())
    shares = serving.topics(settings).result_partitions
    share = shares[numbered(settings, "sink", serving.sinks) if serving.sinks > 1 else 0]
    return Wiring(
        names_from_one(Role.SINK, serving.sinks)[share.number],
        lambda result_position: SinkMachine(query, result_position, generation, serving.runner.each, share=share),
        share=share,
        result_writer=result_writer_of(settings, topic_name(query.name, Topic.RESULTS)),
    )


if __name__ == "__main__":
    leave(main(Role.SINK, lambda: run({Role.SINK: wire}, load_settings())))
