"""How Kafka keeps each kind of topic: what the protocol fixes, the defaults, and what a user may set by kind.

Only the protocol trims internal topics (P9): no limit of time or size removes records. The last result holds the
position where the next one begins. So results are limited by bytes, which always leaves the latest; a limit of time is
possible as well, since the sink repeats the position (`roles/sink/machine.py`). Inputs follow the cluster's defaults.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from spojoin.errors import ConfigurationError
from spojoin.protocol.topology import MESSAGE_BYTES_MAX, Topic
from spojoin.suggest import unknown


class TopicKind(enum.StrEnum):
    """The kinds of topics, as the setting `topics` names them."""

    INTERNAL = "internal"
    RESULTS = "results"
    DLQ = "dlq"
    INPUTS = "inputs"
    TABLES = "tables"


#: The setting's name for all kinds.
ALL = "all"
#: In Kafka not part of a topic's configuration, but a number given at its creation.
REPLICATION = "replication.factor"

#: A segment has room for the largest record and the overhead of its batch. Kafka frees disk space by whole segments: by
#: its default, 1 GiB, each partition of an internal topic would occupy that much although nearly all of it was trimmed.
SEGMENT_BYTES = MESSAGE_BYTES_MAX + (8 << 20)
#: The sink repeats its position at least this often; results with a shorter retention time could lose it.
RESTATED_MS = 300_000
RESULTS_MS_MIN = 2 * RESTATED_MS

RESULTS_BYTES, LETTERS_BYTES = 4 << 30, 256 << 20

_MESSAGES = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
_KEPT = {"cleanup.policy": "delete", **_MESSAGES, "retention.ms": "-1", "segment.bytes": str(SEGMENT_BYTES)}

DEFAULTS: Mapping[TopicKind, Mapping[str, str]] = {
    TopicKind.INTERNAL: {**_KEPT, "retention.bytes": "-1"},
    TopicKind.RESULTS: {**_KEPT, "retention.bytes": str(RESULTS_BYTES)},
    TopicKind.DLQ: {**_KEPT, "retention.bytes": str(LETTERS_BYTES)},
    TopicKind.INPUTS: {"cleanup.policy": "delete", **_MESSAGES},
    TopicKind.TABLES: {"cleanup.policy": "compact", **_MESSAGES},
}

#: The names of Kafka 4.3; a test compares them with the broker's. Other implementations have their own names.
NAMES = (
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
)
_OF_OTHER_MAKES = ("confluent.", "redpanda.")
_WHOLE = ("replication.factor", "min.insync.replicas", "retention.bytes", "retention.ms", "segment.bytes")

#: Options by which Kafka removes records; only the protocol may remove records of internal topics.
_TAKES_AWAY = ("local.retention.bytes", "local.retention.ms", "retention.bytes", "retention.ms")
#: Options whose values the protocol needs.
_FIXED = ("cleanup.policy", "max.message.bytes")


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The configuration of each kind of topic: the defaults, overridden by the values `given` by kind."""

    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def for_kind(self, kind: TopicKind) -> Mapping[str, str]:
        """A new topic's configuration, by Kafka's names; without `replication.factor` if the cluster decides it."""
        return {**DEFAULTS[kind], **self.given.get(ALL, {}), **self.given.get(kind, {})}


def kind_of(topic: Topic) -> TopicKind:
    """The kind of a topic of the table of roles."""
    kinds = {Topic.RESULTS: TopicKind.RESULTS, Topic.DEAD: TopicKind.DLQ, Topic.INPUT: TopicKind.INPUTS}
    return kinds.get(topic, TopicKind.INTERNAL)


def topic_configs(given: Mapping[str, Mapping[str, object]], results_bytes_max: int | None = None) -> TopicConfigs:
    """The checked setting `topics`; results_bytes_max: the limit of results and dead letters if it names none.

    Raises ConfigurationError.
    """
    texts = {kind: {name: _text(value) for name, value in names.items()} for kind, names in given.items()}
    for kind, names in texts.items():
        if kind != ALL and kind not in list(TopicKind):
            raise ConfigurationError(f"topics: {unknown('kind', kind, [ALL, *TopicKind])}")
        for name, value in names.items():
            _check(kind, name, value)
    if results_bytes_max is not None:
        limit = {"retention.bytes": str(results_bytes_max)}
        texts |= {kind: limit | texts.get(kind, {}) for kind in (TopicKind.RESULTS, TopicKind.DLQ)}
    found = TopicConfigs(texts)
    for each in TopicKind:
        _check_together(each, found.for_kind(each))
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(kind: str, name: str, value: str) -> None:
    where = f"topics.{kind}"
    if name not in (REPLICATION, *NAMES) and not name.startswith(_OF_OTHER_MAKES):
        raise ConfigurationError(f"{where}: {unknown('configuration', name, [REPLICATION, *NAMES])}")
    if name in _FIXED:
        raise ConfigurationError(f"{where}: {name} follows from what spojoin writes; remove it")
    if name in _TAKES_AWAY and kind == ALL:
        kinds = ", ".join([TopicKind.RESULTS, TopicKind.DLQ, TopicKind.INPUTS])
        raise ConfigurationError(f"{where}: {name} is said of single kinds: {kinds}; internal topics are trimmed")
    if name in _TAKES_AWAY and kind == TopicKind.INTERNAL:
        raise ConfigurationError(
            f"{where}: {name} could delete what is still needed: services trim internal topics behind the results; "
            "remove it"
        )
    if name in _WHOLE:
        _check_whole(f"{where}: {name}", value, _least(kind, name))


def _check_whole(what: str, value: str, least: int) -> None:
    is_whole = value.removeprefix("-").isdigit()
    if is_whole and (int(value) >= least or (int(value) == -1 and "retention" in what)):
        return
    all_of_it = ", or -1 for all" if "retention" in what else ""
    raise ConfigurationError(f"{what} is {value!r}; expected a whole number, at least {least}{all_of_it}")


def _least(kind: str, name: str) -> int:
    """The least value of an option: segments hold the largest record; zero bytes would remove the last result."""
    if name == "segment.bytes" and kind not in (TopicKind.INPUTS, TopicKind.TABLES):
        return SEGMENT_BYTES
    if name == "retention.bytes" and kind in (TopicKind.RESULTS, TopicKind.DLQ):
        return 1 << 20
    return RESULTS_MS_MIN if name == "retention.ms" and kind == TopicKind.RESULTS else 1


def _check_together(kind: TopicKind, config: Mapping[str, str]) -> None:
    replicas, insync = int(config.get(REPLICATION, 0)), int(config.get("min.insync.replicas", 1))
    if replicas and insync > replicas:
        raise ConfigurationError(
            f"topics.{kind}: min.insync.replicas is {insync} and {REPLICATION} is {replicas}: nothing could be written"
        )
