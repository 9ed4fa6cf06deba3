"""The sink as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.roles.sink.machine import SinkMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.registry import check_single_rows, row_form_of
from spojoin.runtime.service import leave, main
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes it."""
    query, generation = serving.query, serving.generation
    check_single_rows(query, settings.results_format)
    return Wiring(
        "sink",
        lambda result_position: SinkMachine(query, result_position, generation, serving.runner.each),
        row_form=row_form_of(settings, topic_name(query.name, Topic.RESULTS)),
    )


if __name__ == "__main__":
    leave(main(Role.SINK))
