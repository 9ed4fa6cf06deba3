"""`spojoin up`: a query served on this machine."""

from __future__ import annotations

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options
from spojoin.cli.up_options import UpOptions


@with_options
def up(options: UpOptions) -> None:
    """Serve a query on this machine until Ctrl-C: Kafka, Redis and all services, in one process or apart.

    Then push rows as JSON, CSV lines or Arrow batches to the topics that it prints, from any program or with
    `spojoin send`, and read the results with `spojoin results`.

    Examples:

        spojoin up query.yaml

        spojoin up query.yaml --workers 4 --bootstrap kafka:9092 --redis redis://redis:6379/0

        spojoin up changed.yaml --replace --bootstrap kafka:9092 --redis redis://redis:6379/0
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.up import serve

        serve(options, Console())
