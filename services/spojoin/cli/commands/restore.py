"""`spojoin restore`: a query goes on after its topics were lost, or on another Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, QueryFile
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """Which query goes on, and where."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="The Kafka that the query is moved from, inputs copied."),
    ] = None
    answers_again: Annotated[
        bool, typer.Option("--answers-again", help="Accept that answers of one frame come twice, where they must.")
    ] = False
    debug: Debug = False


@with_options
def restore(options: RestoreOptions) -> None:
    """Let a query go on where its results end, after internal topics were lost or on another Kafka.

    Windows are filled from the inputs again. The header `spojoin-generation` of results counts up. The connection to
    Kafka comes from the services' variables, such as SPOJOIN_KAFKA, or their settings file.

    Examples:

        spojoin restore query.yaml --bootstrap kafka:9092

        spojoin restore query.yaml --bootstrap new-kafka:9092 --from old-kafka:9092
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.restore import restore_query
        from spojoin.query.load import load_query

        query = load_query(options.query)
        for line in restore_query(query, options.query, options.bootstrap, options.old, options.answers_again):
            typer.echo(line)
