"""`loadgen silence`."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

import typer

from loadgen.chaos.silence_options import SilenceOptions
from loadgen.errors import one_sentence
from spojoin.cli.options import with_options


@with_options
def silence(asked: SilenceOptions) -> None:
    """Strike services and servers while rows flow, and measure how long results are silent.

    Starts Kafka, Redis and all services of a self join on this machine, fills its window, and strikes one service after
    the other, each when all are well again: always the instance that speaks. Then Kafka is restarted, and Redis killed
    for good. The silence of a fault is the longest time between two results around it, as a reader of committed records
    sees it; of Kafka's restart, what is beyond the time until a new client finds the results again. Exit status 1 where
    a result is missing, doubled, out of order or wrong.

    Examples:

        loadgen silence --kills 100 --stops 50 --restarts 3

        loadgen silence --packing apart --no-standbys --window 100000 --kills 18 --stops 0
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.silence_session import measure

        raise typer.Exit(measure(asked))
