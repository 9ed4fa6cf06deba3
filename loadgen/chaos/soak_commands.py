"""`loadgen soak`."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

import typer

from loadgen.chaos.soak_options import SoakOptions
from loadgen.errors import one_sentence
from spojoin.cli.options import with_options


@with_options
def soak(asked: SoakOptions) -> None:
    """Break and change everything at random for a long time, while every result is recomputed as it comes.

    Starts Kafka, Redis and the services on this machine. Under load it kills and stops services, restarts Kafka and
    Redis, changes the number of workers, moves between packings and switches standbys on and off, as the seed says.
    Exit status 1 where a result is missing, doubled, out of order or wrong, services are stuck, memory grows after
    the first tenth, or a topic keeps more of the disk than it may.

    Examples:

        loadgen soak --minutes 60

        loadgen soak --minutes 5 --seed 7 --kinds kill,stop,move
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.soak_session import soak_services

        raise typer.Exit(soak_services(asked))
