"""The options of a reading of results, checked before any job starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spojoin.errors import ConfigurationError
from spojoin.ports.kafka import KafkaConfig
from spojoin.runtime.settings import load_settings
from spojoin.suggest import listed, unknown

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
EARLIEST, LATEST = "earliest", "latest"
#: Options other than those of Kafka's client.
KNOWN = ("query", "startingOffsets", "generation", "minPartitions")
#: Options of Spark's Kafka source, and what to do here instead.
_ELSEWHERE = {
    "subscribe": "name the query: .option('query', NAME)",
    "maxoffsetspertrigger": "a micro-batch takes all that is there; rows pass through a task one record at a time",
    "endingoffsets": "a batch read ends where the results end when it is planned",
    "failondataloss": "results that are gone are always an error",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, and how Kafka is reached.

    starts_late: whether to read only results that come from now on; generation: the only one to read, None for all
    partitions_min: the number of tasks of a reading, None for as many as pay
    """

    query: str
    kafka: KafkaConfig
    starts_late: bool = False
    generation: int | None = None
    partitions_min: int | None = None


def checked_options(given: Mapping[str, str]) -> SourceOptions:
    """The options that a user gave, with names in any case. Raises ConfigurationError."""
    options = {name.lower(): value for name, value in given.items()}
    ours = {name.lower(): name for name in KNOWN}
    for name in options:
        if name in _ELSEWHERE:
            raise ConfigurationError(f"option {name!r} has no meaning for results: {_ELSEWHERE[name]}")
        if name not in ours and not name.startswith(KAFKA):
            raise ConfigurationError(unknown("option", name, (*KNOWN, BOOTSTRAP)))
    return SourceOptions(
        _query(options),
        kafka_of(options),
        _starts_late(options.get("startingoffsets", EARLIEST)),
        _number(options, "generation", ours),
        _number(options, "minpartitions", ours),
    )


def kafka_of(options: Mapping[str, str]) -> KafkaConfig:
    """How to reach Kafka, from the options that begin with `kafka.` and the variables that services read.

    Raises ConfigurationError.
    """
    given = {name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)}
    bootstrap = given.pop("bootstrap.servers", "").strip()
    if not bootstrap:
        raise ConfigurationError(f"option {BOOTSTRAP!r} is missing: give Kafka's brokers, such as 'localhost:9092'")
    settings = load_settings(query_file="-", bootstrap_servers=bootstrap, kafka=given or None)
    return KafkaConfig(settings.bootstrap_servers, settings.kafka_properties())


def _query(options: Mapping[str, str]) -> str:
    name = options.get("query", "").strip()
    if not name:
        raise ConfigurationError("option 'query' is missing: give the name of a served query, such as 'trades'")
    return name


def _starts_late(text: str) -> bool:
    if text.lower() not in (EARLIEST, LATEST):
        raise ConfigurationError(
            f"option 'startingOffsets' is {text!r}: expected {listed((EARLIEST, LATEST))}; a stream that has a "
            "checkpoint goes on from there"
        )
    return text.lower() == LATEST


def _number(options: Mapping[str, str], name: str, ours: Mapping[str, str]) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigurationError(f"option {ours[name]!r} is {text!r}: expected a whole number from 1 on")
    return int(text)
