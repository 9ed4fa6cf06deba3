"""The topics of one query by their names in the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.protocol.result_partitions import ResultPartition, partitions_of
from spojoin.protocol.topic_config import TopicConfigs, TopicKind, kind_of
from spojoin.protocol.topology import (
    FIRST_GENERATION,
    KEPT,
    SHARED,
    Topic,
    dead_letter_topic,
    partitions,
    source_topic,
    topic_name,
)


@dataclass(frozen=True, slots=True)
class Topics:
    """Names and sizes of a query's topics; `inputs` names the users' topic of each input, in order.

    streams: how many the query has; None if each has its own input
    fed: the inputs that producers write; the others are results of queries
    table: the compacted topic of a query's table, the last of the inputs; None if it has none
    logical_ands: how many logical ANDs report the mutable part
    sinks: how many partitions the results have; results_by_key: whether keys divide their rows (P20.7)
    intakes: how many partitions the blocks have, if there are any
    """

    query: str
    inputs: tuple[str, ...]
    predicates: int
    workers_max: int
    generation: int = FIRST_GENERATION
    streams: int | None = None
    fed: tuple[str, ...] = ()
    table: str | None = None
    logical_ands: int = 1
    sinks: int = 1
    intakes: int = 0
    results_by_key: bool = False

    @classmethod
    def for_query(
        cls,
        query: Query,
        workers_max: int,
        input_topics: Mapping[str, str],
        generation: int = FIRST_GENERATION,
        logical_ands: int = 1,
        sinks: int = 1,
        intakes: int = 0,
    ) -> Topics:
        """The topics of a generation of `query`; `input_topics` overrides names by stream."""
        read = [stream for stream in query.inputs if stream.table is None or stream.table.topic is not None]
        inputs = tuple(input_topics.get(stream.name, source_topic(stream)) for stream in read)
        is_fed = [stream.query is None and stream.table is None for stream in read]
        fed = tuple(topic for topic, fits in zip(inputs, is_fed, strict=True) if fits)
        table = inputs[-1] if read[-1].table is not None else None
        return cls(
            query.name,
            inputs,
            len(query.predicates),
            workers_max,
            generation,
            len(query.streams),
            fed,
            table,
            logical_ands,
            sinks,
            intakes,
            results_by_key=query.results.key is not None,
        )

    @property
    def result_partitions(self) -> list[ResultPartition]:
        """The partitions of the results."""
        return partitions_of(self.sinks, by_key=self.results_by_key)

    @property
    def flowing(self) -> tuple[str, ...]:
        """The inputs whose rows flow; a table's topic is read separately."""
        return self.inputs if self.table is None else self.inputs[:-1]

    def name(self, topic: Topic) -> str:
        """An internal topic's name."""
        return topic_name(self.query, topic, self.generation)

    def inputs_of(self, topic: Topic) -> list[LogPartition]:
        """All partitions of an internal topic."""
        streams = len(self.inputs) if self.streams is None else self.streams
        count = partitions(
            topic,
            predicates=self.predicates,
            streams=streams,
            workers_max=self.workers_max,
            logical_ands=self.logical_ands,
            sinks=self.sinks,
            intakes=self.intakes,
        )
        return [LogPartition(self.name(topic), partition) for partition in range(count)]

    def dead_letters(self, number: int) -> LogPartition:
        """The partition for dead letters of an input."""
        return LogPartition(dead_letter_topic(self.inputs[number]), 0)

    def names_of_generation(self) -> list[str]:
        """The topics that no other generation has."""
        return [self.name(topic) for topic in Topic if topic not in SHARED]

    def trimmed(self, among: Collection[Topic] = tuple(Topic)) -> dict[str, int]:
        """Partition counts of all internal topics that aren't for users."""
        names = [topic for topic in Topic if topic in among and topic not in (Topic.INPUT, *KEPT)]
        return {self.name(topic): len(self.inputs_of(topic)) for topic in names}

    def kept(self, among: Collection[Topic] = tuple(Topic)) -> dict[str, int]:
        """Partition counts of the topics for users: results, and each input's dead letters."""
        found = {self.name(Topic.RESULTS): self.sinks} if Topic.RESULTS in among else {}
        streams = range(len(self.inputs)) if Topic.DEAD in among else ()
        return found | {self.dead_letters(stream).topic: 1 for stream in streams}


def create_kept(
    log: Log[bytes], topics: Topics, configs: TopicConfigs, among: Collection[Topic] = tuple(Topic)
) -> None:
    """Create the topics for users, with the configuration of their kinds."""
    for topic in KEPT:
        if topic in among:
            log.create_topics(topics.kept((topic,)), configs.for_kind(kind_of(topic)))


def create_inputs(log: Log[bytes], topics: Topics, partitions: int, configs: TopicConfigs) -> None:
    """Create the topics that producers write, and a table's topic."""
    log.create_topics(dict.fromkeys(topics.fed, partitions), configs.for_kind(TopicKind.INPUTS))
    if topics.table is not None:
        log.create_topics({topics.table: 1}, configs.for_kind(TopicKind.TABLES))
