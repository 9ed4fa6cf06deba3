"""The sink as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.roles.sink.machine import SinkMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.registry import check_single_rows, result_writer_of
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wiring


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes a sink."""
    query, generation = serving.query, serving.generation
    check_single_rows(query, settings.results_format)
    return Wiring(
        "sink",
        lambda result_position: SinkMachine(query, result_position, generation, serving.runner.each),
        result_writer=result_writer_of(settings, topic_name(query.name, Topic.RESULTS)),
    )


if __name__ == "__main__":
    leave(main(Role.SINK, lambda: run({Role.SINK: wire}, load_settings())))
