"""`spojoin topics --list`, `--apply` and `--delete`, at the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import typer
from rich.console import Console

from spojoin.cli.topic_care import (
    changes_of,
    chosen,
    refuse_served,
    replicas_left,
    serving,
    table_of,
    topics_of,
)
from spojoin.cli.topics import kafka_of, make_topics
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.topic_config import TopicKind
from spojoin.runtime.settings import Settings

#: Wide enough for a table that goes into a file; a terminal has its own width.
WIDTH = 200


def list_topics(query: Query, settings: Settings) -> None:
    """Print the query's topics."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    with closing(KafkaLog(kafka_of(settings))) as log:
        found = topics_of(log, query, settings)
    console.print(table_of(found))
    console.print(f"{len(found)} topics, {sum(each.partitions for each in found)} partitions", highlight=False)


def bring_topics(query: Query, settings: Settings, partitions: int | None, *, applies: bool) -> None:
    """Make the query's topics, with inputs of so many partitions if given; where `applies`, configure those there."""
    for name, count in make_topics(query, settings, partitions).items():
        typer.echo(f"{name}: {count} partition{'' if count == 1 else 's'}")
    if applies:
        _apply(query, settings)


def _apply(query: Query, settings: Settings) -> None:
    """Bring topics to their configuration, and say what is changed."""
    with closing(KafkaLog(kafka_of(settings))) as log:
        found = topics_of(log, query, settings)
        changes = changes_of(found, settings)
        log.configure({topic: {name: to for name, (_, to) in names.items()} for topic, names in changes.items()})
    for topic, names in changes.items():
        for name, (before, now) in names.items():
            typer.echo(f"{topic}: {name} was {before or 'not set'}, and is {now}")
    for sentence in replicas_left(found, settings):
        typer.echo(sentence)
    if not changes:
        typer.echo("all topics are kept as the settings say")


def delete_topics(query: Query, settings: Settings, also: Sequence[str], *, is_sure: bool, is_forced: bool) -> None:
    """Delete the internal topics of a query that nobody serves, and those of the kinds `also`; ask before.

    Raises ConfigurationError where it is served, or may be.
    """
    with closing(KafkaLog(kafka_of(settings))) as log:
        found = topics_of(log, query, settings)
        names = chosen(found, also)
        refuse_served(query, serving(query, kafka_of(settings), settings.store_url()), is_forced=is_forced)
        if not names:
            typer.echo(f"Kafka has none of these topics of {query.name}")
            return
        for name in names:
            typer.echo(name)
        if not is_sure and not typer.confirm(f"Delete these {len(names)} topics with all that is in them?"):
            raise ConfigurationError("nothing was deleted")
        log.delete_topics(names)
    left = sorted({each.kind for each in found if each.name not in names})
    typer.echo(
        f"{len(names)} topics are deleted" + (f"; of these kinds some are left: {', '.join(left)}" if left else "")
    )
    if TopicKind.RESULTS in left:
        typer.echo(
            f"results of {query.name} are left: before a query of this name can begin anew, they have to go as well "
            "(--also results)"
        )
