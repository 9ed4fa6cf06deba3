"""`spojoin validate`: a query checked, as a file or as services would run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile, say_notes
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """What to check, and against what."""

    query: QueryFile
    deployed: Annotated[
        bool,
        typer.Option("--deployed", help="Check the query as the services would run it, and their SPOJOIN_ variables."),
    ] = False
    running: Annotated[
        bool,
        typer.Option(
            "--running", help="Also ask Kafka whether another query is served under its name, or the name is another's."
        ),
    ] = False
    coming: Annotated[
        bool, typer.Option("--coming", help="With --running: Kafka, or this user of it, may not be there yet.")
    ] = False
    partials: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the topic of partials, where something else creates it.")
    ] = None
    named: Annotated[
        list[str] | None,
        typer.Option(help="A name that another program read in the query: the query's or a stream's; repeatable."),
    ] = None
    debug: Debug = False


@with_options
def validate(options: ValidateOptions) -> None:
    """Check a query: print its name if it is valid; else the line, what is wrong and what was expected.

    Examples:

        spojoin validate query.yaml

        SPOJOIN_WORKERS=4 spojoin validate query.yaml --deployed

        SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 spojoin validate query.yaml --deployed --running
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.deployed import check_names, check_partials, check_running, deployed_settings, load_deployed
        from spojoin.query.load import load_query

        is_coming = options.coming
        asked = deployed_settings(options.query, is_coming=is_coming) if options.deployed or options.running else None
        loaded = load_deployed(options.query, asked) if asked and options.deployed else load_query(options.query)
        check_partials(loaded, options.partials)
        check_names(loaded, options.named or ())
        if asked and options.running and (unknown := check_running(loaded, asked, is_coming=is_coming)):
            typer.echo(f"{loaded.name}: {unknown}", err=True)
        say_notes(loaded)
        typer.echo(f"{loaded.name}: the query is valid")
