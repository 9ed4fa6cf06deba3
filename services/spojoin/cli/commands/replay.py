"""`spojoin replay-dead-letters`: refused rows sent again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, QueryFile
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Whose dead letters, and which."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    reason: Annotated[
        list[str] | None, typer.Option(help="Only rows refused for this reason, such as late; repeatable.")
    ] = None
    since: Annotated[
        datetime | None, typer.Option(help="Only rows refused since then, in UTC.", show_default=False)
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Also rows that were sent again and refused again.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; say what would be sent.")] = False
    debug: Debug = False


@with_options
def replay_dead_letters(options: ReplayOptions) -> None:
    """Send refused rows into their input topics again, each once, and say what became of them.

    What was sent is remembered in the topics of the dead letters, so a second call sends only what was refused since.

    Examples:

        spojoin replay-dead-letters query.yaml --dry-run

        spojoin replay-dead-letters query.yaml --reason late --since 2026-11-27T08:00:00
    """
    with one_sentence(is_debug=options.debug):
        from datetime import UTC

        from spojoin.cli.replay import Choice, Replay, left, sentences, would_be_sent
        from spojoin.cli.topics import current_generation, kafka_of
        from spojoin.local.reachable import check_kafka_takes
        from spojoin.ports.kafka import KafkaLog
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings
        from spojoin.runtime.topics import Topics

        settings = load_settings(query_file=options.query, bootstrap_servers=options.bootstrap)
        query = load_query(options.query)
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
        since_ms = 0 if options.since is None else int(options.since.replace(tzinfo=UTC).timestamp() * 1000)
        log = KafkaLog(kafka_of(settings))
        try:
            generation = current_generation(log, query.name)
            topics = Topics.of(query, settings.workers_max, settings.input_topics, generation)
            replay = Replay(log, topics, Choice(frozenset(options.reason or ()), since_ms, options.again))
            if options.dry_run:
                found = replay.found()
                lines = [would_be_sent(found), *left(found)]
            else:
                sent = replay.run(lambda text: typer.echo(text, err=True))
                lines = [*sentences(sent, f"{options.query} --bootstrap {options.bootstrap}")]
        finally:
            log.close()
        for line in lines:
            typer.echo(line)
