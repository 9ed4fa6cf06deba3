"""A query's topics as Kafka has them: listed, brought to their configuration, deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from spojoin.errors import ConfigurationError
from spojoin.local.only_one import OnlyOne
from spojoin.model import Query
from spojoin.ports.clock import SystemClock
from spojoin.ports.interfaces import LogPartition, LogUnavailable, StoreUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import REPLICATION, TopicKind, kind_of
from spojoin.protocol.topology import SHARED, Topic, dead_letter_topic, later_generations, topic_name
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics
from spojoin.suggest import listed, span, unknown
from spojoin.telemetry.status import read_status

_AGAIN = "services make it again from the log"
_ANEW = "the query begins anew"
#: What each topic is for, and what deleting it costs once no service runs.
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


@dataclass(frozen=True, slots=True)
class QueryTopic:
    """One of a query's topics, as Kafka has it.

    config: what Kafka keeps it by; None where this user may not ask
    records: between its first and its last offset, transactions' marks included
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
    """All topics of a query that are there: of every generation, and its inputs. Raises LogUnavailable."""
    there = log.listed()
    names = {name: topic for name, topic in _names(query, settings, there) if name in there}
    table = Topics.of(query, settings.workers_max, settings.input_topics).table
    configs = _configs(log, list(names))
    return [
        QueryTopic(
            name,
            topic,
            TopicKind.TABLES if name == table else kind_of(topic),
            there[name].partitions,
            there[name].replicas,
            configs.get(name),
            sum(_records(log, LogPartition(name, partition)) for partition in range(there[name].partitions)),
        )
        for name, topic in names.items()
    ]


def _names(query: Query, settings: Settings, there: Collection[str]) -> Iterator[tuple[str, Topic]]:
    inputs = Topics.of(query, settings.workers_max, settings.input_topics).inputs
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
    """By topic; nothing where this user may not ask for it."""
    try:
        return log.configs(names)
    except LogUnavailable:
        return {}


def _records(log: KafkaLog, source: LogPartition) -> int:
    bounds = log.bounds(source)
    return bounds.end - bounds.earliest


def table_of(found: Sequence[QueryTopic]) -> Table:
    """What people read."""
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
    """What would have to change for topics to be as the settings say: by topic and name, from what to what.

    Raises ConfigurationError where this user may not see what a topic has.
    """
    changes: dict[str, dict[str, tuple[str, str]]] = {}
    for each in found:
        if each.config is None:
            raise ConfigurationError(
                f"this user may not see the configuration of {each.name}: give it DescribeConfigs and AlterConfigs"
            )
        # Inputs belong to their owners: only what is said of them, and no default.
        is_theirs = each.topic is Topic.INPUT
        configs = settings.topic_configs
        wanted = configs.given.get(each.kind, {}) if is_theirs else configs.of(each.kind)
        differing = {
            name: (each.config.get(name, ""), value)
            for name, value in wanted.items()
            if name != REPLICATION and each.config.get(name, "") != value
        }
        if differing:
            changes[each.name] = differing
    return changes


def replicas_left(found: Sequence[QueryTopic], settings: Settings) -> list[str]:
    """Topics that have another number of replicas than the settings say, which no configuration changes."""
    return [
        f"{each.name} has {each.replicas} replicas, not {wanted}: kafka-reassign-partitions.sh changes that"
        for each in found
        if int(wanted := settings.topic_configs.of(each.kind).get(REPLICATION, each.replicas)) != each.replicas
        and each.topic is not Topic.INPUT
    ]


# -- deletion


def chosen(found: Sequence[QueryTopic], named: Sequence[str]) -> list[str]:
    """Which topics to delete: the internal ones, and those of the kinds that are named.

    Raises ConfigurationError where a name is no kind.
    """
    kinds = [kind for kind in TopicKind if kind is not TopicKind.INTERNAL]
    for name in named:
        if name not in kinds:
            raise ConfigurationError(f"--also {unknown('kind', name, kinds)}")
    return [each.name for each in found if each.kind is TopicKind.INTERNAL or each.kind in named]


def refuse_served(query: Query, serving: Sequence[str] | None, *, is_forced: bool) -> None:
    """Raise ConfigurationError while somebody serves the query, or where nobody can say (`serving` is None)."""
    if serving:
        raise ConfigurationError(
            f"{query.name} is being served by {listed(serving)}: end these first (helm uninstall, or Ctrl-C in spojoin "
            "up); their reports are gone ten seconds after them"
        )
    if serving is None and not is_forced:
        raise ConfigurationError(
            f"without a Redis that answers nobody can say whether {query.name} is being served: give --redis, or "
            "--force if you know that no service runs"
        )


def serving(query: Query, config: KafkaConfig, store_url: str | None) -> list[str] | None:
    """Who serves a query, as services report to the store, and `spojoin up` to Kafka; None where nobody can say."""
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
