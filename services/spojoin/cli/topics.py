"""Creates, lists, configures and deletes a query's topics, and prints the results in them."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson
import typer
from rich.console import Console
from rich.table import Table

from spojoin.embedded.writers import TEXT_ROWS, json_lines
from spojoin.errors import ConfigurationError
from spojoin.local.only_one import OnlyOne
from spojoin.model import Query
from spojoin.ports.interfaces import (
    Log,
    LogPartition,
    LogRecord,
    LogUnavailable,
    StoreUnavailable,
    SystemClock,
)
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import DEFAULTS, REPLICATION, TopicKind, kind_of
from spojoin.protocol.topology import SHARED, Topic, dead_letter_topic, later_generations, topic_name
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.ordered_results import OrderedResults
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.service import create_topics
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics, create_inputs
from spojoin.runtime.wiring import topics_needed
from spojoin.suggest import listed, span, unknown
from spojoin.telemetry.status import read_status
from spojoin.wire.registered import PREFIX_BYTES
from spojoin.wire.result_forms import AVRO, JSON, JSON_SCHEMA
from spojoin.wire.results import CONTENT_TYPE, result_from_message

POLL_S = 0.5

_AGAIN = "services make it again from the log"
_ANEW = "the query begins anew"

#: The purpose of each topic, and what deleting it costs once no service runs.
PURPOSES: Mapping[Topic, tuple[str, str]] = {
    Topic.INPUT: ("rows to join", "rows that weren't read yet are lost"),
    Topic.FRAMES: ("the log: rows in their order", _ANEW),
    Topic.RUNS: ("sorted rows for batches", _AGAIN),
    Topic.BATCHES: ("rows of the windows", _ANEW),
    Topic.PARTIALS: ("partners by condition", _AGAIN),
    Topic.MATCHES: ("partners found", _AGAIN),
    Topic.RESULTS: ("results, and where the next one begins", f"unread results are lost, and {_ANEW}"),
    Topic.PLAN: ("hot keys", "the predictor finds them again"),
    Topic.CONTROL: ("requested numbers of workers", "the setting holds again"),
    Topic.GENERATIONS: ("which query is served, and whose the name is", f"the name is free, and {_ANEW}"),
    Topic.PRESENCE: ("which instance speaks", "instances agree again"),
    Topic.DEAD: ("rows that were refused", "unread ones are lost"),
}

#: The width of a table that is written into a file; a terminal has its own width.
WIDTH = 200


def kafka_config(settings: Settings) -> KafkaConfig:
    """The connection to Kafka, from the settings."""
    return KafkaConfig(settings.bootstrap_servers, settings.kafka_properties())


def make_topics(query: Query, settings: Settings, partitions: int | None) -> dict[str, int]:
    """Make the topics of the generation that answers, and the inputs if their number of `partitions` is given.

    Returns the partitions of each. Raises LogUnavailable if Kafka does not answer, or refuses.
    """
    log = KafkaLog(kafka_config(settings))
    try:
        configs = settings.topic_configs
        generation = current_generation(log, query.name, configs.for_kind(TopicKind.INTERNAL))
        topics = Topics.for_query(
            query,
            settings.workers_max,
            settings.input_topics,
            generation,
            logical_ands=settings.mutable_reporters(),
            sinks=settings.sinks,
            intakes=settings.intakes,
        )
        needed = topics_needed(settings)
        create_topics(log, topics, configs, needed)
        if partitions is not None:
            create_inputs(log, topics, partitions, configs)
        inputs = topics.fed if partitions is not None else ()
        return {name: log.partitions(name) for name in (*inputs, *topics.trimmed(needed), *topics.kept())}
    finally:
        log.close()


def current_generation(log: Log[bytes], query: str, config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]) -> int:
    """The generation that answers a query; creates the topic of generations if missing. Raises LogUnavailable."""
    log.create_topics({topic_name(query, Topic.GENERATIONS): 1}, config)
    return GenerationsTopic(log, query).read().current_number


def print_results(query: Query, settings: Settings, out: BinaryIO, *, is_following: bool) -> None:
    """Write all results as JSON lines, in order, each once; wait for more if `is_following`."""
    log = KafkaLog(kafka_config(settings))
    topic = topic_name(query.name, Topic.RESULTS)
    with closing(log):
        partitions_of(log, topic)
        with closing(OrderedResults(log, topic)) as results:
            for text in _texts(_records(results, is_following=is_following), RegisteredResults(settings)):
                out.write(text)
                out.flush()


def partitions_of(log: Log[bytes], topic: str) -> int:
    """The number of a topic's partitions. Raises ConfigurationError if there is no such topic."""
    count = log.partitions(topic)
    if not count:
        raise ConfigurationError(f"Kafka has no topic {topic!r}: start the services first (spojoin up), or make it")
    return count


def _records(results: OrderedResults, *, is_following: bool) -> Iterator[LogRecord[bytes]]:
    while True:
        found = list(results.poll(POLL_S))
        yield from found
        if not (found or is_following) and results.is_at_end:
            return


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, default=_as_text) + b"\n"


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _texts(records: Iterable[LogRecord[bytes]], registered: RegisteredResults) -> Iterator[bytes]:
    """New results as JSON.content_type lines, from any format of the topic."""
    for record in records:
        headers = dict(record.headers)
        if headers.get(CONTENT_TYPE) == JSON.content_type:
            yield record.value + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == JSON_SCHEMA.content_type:
            yield record.value[PREFIX_BYTES:] + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == AVRO.content_type:
            yield _line(registered.row(record.value)) if record.value else b""
        else:
            rows = result_from_message(headers, record.value).rows
            yield from (bytes(json_lines(rows.slice(at, TEXT_ROWS))) for at in range(0, rows.num_rows, TEXT_ROWS))


@dataclass(frozen=True, slots=True)
class QueryTopic:
    """One of a query's topics in Kafka.

    config: its configuration in Kafka; None if this user may not ask
    records: the number between its first and its last offset, including transaction markers
    """

    name: str
    topic: Topic
    kind: TopicKind
    partitions: int
    replicas: int
    config: Mapping[str, str] | None
    records: int

    @property
    def kept(self) -> str:
        """How long records are kept, in words."""
        return "?" if self.config is None else kept_text(self.config, is_trimmed=self.kind is TopicKind.INTERNAL)


def kept_text(config: Mapping[str, str], *, is_trimmed: bool = False) -> str:
    """How long a topic keeps records, in words."""
    if "compact" in config["cleanup.policy"]:
        return "the last of each key"
    bytes_max, ms_max = int(config["retention.bytes"]), int(config["retention.ms"])
    limits = [] if bytes_max < 0 else [f"{bytes_max / (1 << 20):,.0f} MiB a partition"]
    limits += [] if ms_max < 0 else [span(1000 * ms_max)]
    return " or ".join(limits) or ("until trimmed" if is_trimmed else "for ever")


def topics_of(log: KafkaLog, query: Query, settings: Settings) -> list[QueryTopic]:
    """All existing topics of a query: those of all generations, and its inputs. Raises LogUnavailable."""
    there = log.listed()
    names = {name: topic for name, topic in _names(query, settings, there) if name in there}
    table = Topics.for_query(query, settings.workers_max, settings.input_topics).table
    configs = _configs(log, list(names))
    return [
        QueryTopic(
            name,
            topic,
            TopicKind.TABLES if name == table else kind_of(topic),
            there[name].partitions,
            there[name].replicas,
            configs.get(name),
            sum(_records_in(log, LogPartition(name, partition)) for partition in range(there[name].partitions)),
        )
        for name, topic in names.items()
    ]


def _names(query: Query, settings: Settings, there: Collection[str]) -> Iterator[tuple[str, Topic]]:
    inputs = Topics.for_query(query, settings.workers_max, settings.input_topics).inputs
    yield from ((name, Topic.INPUT) for name in inputs)
    for topic in Topic:
        if topic is Topic.DEAD:
            yield from ((dead_letter_topic(name), topic) for name in inputs)
        elif topic is not Topic.INPUT:
            yield topic_name(query.name, topic), topic
        if topic not in SHARED:
            prefix = later_generations(query.name, topic)
            yield from ((name, topic) for name in sorted(there) if name.startswith(prefix))


def _configs(log: KafkaLog, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The configurations by topic; empty if this user may not ask for them."""
    try:
        return log.configs(names)
    except LogUnavailable:
        return {}


def _records_in(log: KafkaLog, source: LogPartition) -> int:
    bounds = log.bounds(source)
    return bounds.end - bounds.earliest


def topics_table(found: Sequence[QueryTopic]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("topic", "kind", "partitions", "replicas", "kept", "records", "for", "if deleted"):
        table.add_column(name, justify="right" if name in ("partitions", "replicas", "records") else "left")
    for each in found:
        purpose, cost = PURPOSES[each.topic]
        counts = str(each.partitions), str(each.replicas)
        table.add_row(each.name, each.kind.value, *counts, each.kept, f"{each.records:,}", purpose, cost)
    return table


# -- configuration


def changes_of(found: Sequence[QueryTopic], settings: Settings) -> dict[str, dict[str, tuple[str, str]]]:
    """The changes that bring topics to the settings' configuration: old and new values, by topic and name.

    Raises ConfigurationError if this user may not see a topic's configuration.
    """
    changes: dict[str, dict[str, tuple[str, str]]] = {}
    for each in found:
        if each.config is None:
            raise ConfigurationError(
                f"this user may not see the configuration of {each.name}: give it DescribeConfigs and AlterConfigs"
            )
        # Inputs belong to their owners, so only explicit settings apply to them, and no defaults.
        is_theirs = each.topic is Topic.INPUT
        configs = settings.topic_configs
        wanted = configs.given.get(each.kind, {}) if is_theirs else configs.for_kind(each.kind)
        differing = {
            name: (each.config.get(name, ""), value)
            for name, value in wanted.items()
            if name != REPLICATION and each.config.get(name, "") != value
        }
        if differing:
            changes[each.name] = differing
    return changes


def replicas_left(found: Sequence[QueryTopic], settings: Settings) -> list[str]:
    """Topics with another number of replicas than the settings say, which a configuration can't change."""
    return [
        f"{each.name} has {each.replicas} replicas, not {wanted}: kafka-reassign-partitions.sh changes that"
        for each in found
        if int(wanted := settings.topic_configs.for_kind(each.kind).get(REPLICATION, each.replicas)) != each.replicas
        and each.topic is not Topic.INPUT
    ]


# -- deletion


def topics_to_delete(found: Sequence[QueryTopic], named: Sequence[str]) -> list[str]:
    """The topics to delete: the internal ones, and those of the named kinds.

    Raises ConfigurationError if a name isn't a kind.
    """
    kinds = [kind for kind in TopicKind if kind is not TopicKind.INTERNAL]
    for name in named:
        if name not in kinds:
            raise ConfigurationError(f"--also {unknown('kind', name, kinds)}")
    return [each.name for each in found if each.kind is TopicKind.INTERNAL or each.kind in named]


def refuse_served(query: Query, services: Sequence[str] | None, *, is_forced: bool) -> None:
    """Raise ConfigurationError while services serve the query, or if that is unknown (`services` is None)."""
    if services:
        raise ConfigurationError(
            f"{query.name} is being served by {listed(services)}: end these first (helm uninstall, or Ctrl-C in "
            "spojoin up); their reports expire ten seconds later"
        )
    if services is None and not is_forced:
        raise ConfigurationError(
            f"without an answer from Redis it is unknown whether {query.name} is being served: give --redis, or "
            "--force if you know that no service runs"
        )


def serving_services(query: Query, config: KafkaConfig, store_url: str | None) -> list[str] | None:
    """The services that serve a query, by their reports to the store and to Kafka; None if that is unknown."""
    holders = OnlyOne(config, query.name).holders()
    if holders or store_url is None:
        return holders or None
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415  (without a store no client of it is needed)

    store = RedisStore(store_url)
    try:
        found = read_status(store, SystemClock().wall_ms())
    except StoreUnavailable:
        return None
    finally:
        store.close()
    return [each.service for status in found if status.query == query.name for each in status.services]


def list_topics(query: Query, settings: Settings) -> None:
    """Print the query's topics."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    with closing(KafkaLog(kafka_config(settings))) as log:
        found = topics_of(log, query, settings)
    console.print(topics_table(found))
    console.print(f"{len(found)} topics, {sum(each.partitions for each in found)} partitions", highlight=False)


def bring_topics(query: Query, settings: Settings, partitions: int | None, *, applies: bool) -> None:
    """Make the query's topics, with inputs if their `partitions` are given; configure existing topics if `applies`."""
    for name, count in make_topics(query, settings, partitions).items():
        typer.echo(f"{name}: {count} partition{'' if count == 1 else 's'}")
    if applies:
        _apply(query, settings)


def _apply(query: Query, settings: Settings) -> None:
    """Bring topics to their configuration, and print the changes."""
    with closing(KafkaLog(kafka_config(settings))) as log:
        found = topics_of(log, query, settings)
        changes = changes_of(found, settings)
        log.configure({topic: {name: to for name, (_, to) in names.items()} for topic, names in changes.items()})
    for topic, names in changes.items():
        for name, (before, now) in names.items():
            typer.echo(f"{topic}: {name} was {before or 'not set'}, and is {now}")
    for sentence in replicas_left(found, settings):
        typer.echo(sentence)
    if not changes:
        typer.echo("all topics are kept as the settings require")


def delete_topics(query: Query, settings: Settings, also: Sequence[str], *, is_sure: bool, is_forced: bool) -> None:
    """Delete the internal topics of a query that isn't served, and those of the kinds `also`, after a question.

    Raises ConfigurationError if the query is served, or may be.
    """
    with closing(KafkaLog(kafka_config(settings))) as log:
        found = topics_of(log, query, settings)
        names = topics_to_delete(found, also)
        refuse_served(query, serving_services(query, kafka_config(settings), settings.store_url()), is_forced=is_forced)
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
        typer.echo(f"results of {query.name} are left: delete them too (--also results) before this name is used again")
