"""How Kafka keeps each kind of topic: what the protocol fixes, the defaults, and what a user may set by kind.

Internal topics are trimmed by the protocol alone (P9): no time and no size takes a record away. The last of the results
says where the next one begins. So they are limited by bytes, which always leaves the latest; by time they may be as
well, since the sink says the position again (`roles/sink/machine.py`). Inputs are kept as the cluster keeps topics.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from spojoin.errors import ConfigurationError
from spojoin.protocol.topology import MESSAGE_BYTES_MAX, Topic
from spojoin.suggest import unknown


class TopicKind(enum.StrEnum):
    """What a topic is for, as the setting `topics` names it."""

    INTERNAL = "internal"
    RESULTS = "results"
    DLQ = "dlq"
    INPUTS = "inputs"
    TABLES = "tables"


#: What stands for all kinds in the setting.
ALL = "all"
#: Not a topic's configuration in Kafka, but a number given when it is made.
REPLICATION = "replication.factor"

#: A segment has room for the largest record and what a batch needs around it. Kafka frees the disk by whole segments:
#: by its own default, 1 GiB, each partition of an internal topic would take that, though nearly all of it was trimmed.
SEGMENT_BYTES = MESSAGE_BYTES_MAX + (8 << 20)
#: The sink says its position again this often at the least; results that are kept for a shorter time could lose it.
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

#: Kafka's names, as 4.3 has them; a test compares them with the broker's. Other makes have names of their own.
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

#: What Kafka may do to records by itself; of internal topics only the protocol may.
_TAKES_AWAY = ("local.retention.bytes", "local.retention.ms", "retention.bytes", "retention.ms")
#: What the protocol needs as it is.
_FIXED = ("cleanup.policy", "max.message.bytes")


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The configuration of each kind of topic: the defaults, and over them what was `given` by kind."""

    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, kind: TopicKind) -> Mapping[str, str]:
        """What a new topic gets, by Kafka's names; `replication.factor` is left out where the cluster decides."""
        return {**DEFAULTS[kind], **self.given.get(ALL, {}), **self.given.get(kind, {})}


def kind_of(topic: Topic) -> TopicKind:
    """The kind of a topic of the table of roles."""
    kinds = {Topic.RESULTS: TopicKind.RESULTS, Topic.DEAD: TopicKind.DLQ, Topic.INPUT: TopicKind.INPUTS}
    return kinds.get(topic, TopicKind.INTERNAL)


def topic_configs(given: Mapping[str, Mapping[str, object]], results_bytes_max: int | None = None) -> TopicConfigs:
    """The setting `topics`, checked; `results_bytes_max` is a limit for results and dead letters that it doesn't name.

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
        _check_together(each, found.of(each))
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
    """A segment has room for the largest record; a limit of zero bytes would take the last result away."""
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
