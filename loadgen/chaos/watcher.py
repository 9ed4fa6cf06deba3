"""Watches a query's output while faults happen, and recomputes it when they are over.

The expected results don't depend on the services. The watcher reads earlier rows back from the input topics, and
generates the campaign's rows again from its seed. A nested loop joins them. Results are plain Arrow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from loadgen.check import rows
from loadgen.check.judging import ProbeSample, judge, place_of, reason_of, settle_rejects
from loadgen.check.ordering import Place, StreamRows
from loadgen.check.results import END, EarlyRecords, RecordChain, ResultRecord
from loadgen.check.verdict import Verdict
from loadgen.load.load import Load
from loadgen.load.load_streams import LoadStream
from spojoin.errors import ConfigurationError, Retryable
from spojoin.model import Query, Stream
from spojoin.ports.interfaces import Bounds, Log, LogPartition, LogReader, LogRecord, records_between
from spojoin.protocol.topology import HEARTBEAT, REPLAYED, Topic, dead_letter_topic, topic_name

POLL_S = 0.1
RECORDS_MAX = 1_000
#: The number of messages parsed at once.
PARSED = 512


class TopicMessage(NamedTuple):
    """A message of an input topic, and its position."""

    partition: int
    offset: int
    value: bytes


class Watcher:
    """Reads results and dead letters from their beginning on.

    chain: the results so far; refused: the reasons in dead letters, by the stream's topic and place
    """

    def __init__(self, log: Log[bytes], query: Query, load: Load) -> None:
        self.chain = RecordChain()
        self.refused: dict[str, dict[Place, str]] = defaultdict(dict)
        self._log = log
        self._early = EarlyRecords(self.chain, self.chain.take)
        self._letters = {
            LogPartition(dead_letter_topic(topic), 0): topic
            for topic in (load.topic_of(stream.name) for stream in query.inputs)
        }
        topic = topic_name(query.name, Topic.RESULTS)
        results = [LogPartition(topic, number) for number in range(log.partitions(topic))]
        if not results:
            raise ConfigurationError(f"Kafka has no topic {topic!r}: start the services of {query.name} first")
        there = [each for each in self._letters if log.partitions(each.topic)]
        self._positions = dict.fromkeys([*results, *there], 0)
        self._reader = self._open()

    @property
    def out(self) -> int:
        """The number of rows that have a result or a dead letter."""
        return self.chain.tuples + sum(len(places) for places in self.refused.values())

    def read(self) -> bool:
        """Read new records, waiting for POLL_S at most; returns whether there were any."""
        try:
            records = self._reader.poll(RECORDS_MAX, POLL_S)
        except Retryable:
            # A reader that raised an error can't be used again; the broker may only be restarting.
            self._reader.close()
            self._reader = self._open()
            return False
        for record in records:
            self._positions[record.input] = record.offset + 1
            self._take(record)
        return bool(records)

    def close(self) -> None:
        self._reader.close()

    def verdict(self, query: Query, streams: Sequence[StreamRows], sample: ProbeSample) -> Verdict:
        """Compare all output with the join of `streams`."""
        self._early.settle()
        verdict = Verdict(query.name)
        streams = settle_rejects(streams, [self.refused[topic] for topic in self._letters.values()], query, verdict)
        accepted = self.chain.accepted()
        verdict.resent = accepted.resent
        if accepted.gap is not None:
            verdict.differs(accepted.gap)
        return judge(query, streams, accepted.rows, verdict, sample=sample)

    def _open(self) -> LogReader[bytes]:
        reader = self._log.reader()
        for source, position in self._positions.items():
            reader.open(source, position)
        return reader

    def _take(self, record: LogRecord[bytes]) -> None:
        message = ResultRecord(dict(record.headers), record.value)
        if REPLAYED in message.headers:
            return
        if record.input in self._letters:
            self.refused[self._letters[record.input]][place_of(message.headers)] = reason_of(message.headers)
        elif END not in message.headers:
            raise ConfigurationError("the results are JSON messages: start the services with results_format frames")
        else:
            self._early.take(message)


def divergences(verdict: Verdict) -> int:
    """The number of rows that differ: missing, wrong, doubled, out of order, wrongly refused or accepted."""
    found = verdict.rows_expected - verdict.rows_right
    found += verdict.duplicates + verdict.misordered + verdict.rejects_wrong
    return found or int(not verdict.is_exact)


# --- input ------------------------------------------------------------------------------------------------------------


def messages_before(log: Log[bytes], bounds: Mapping[LogPartition, Bounds], topic: str) -> Iterator[TopicMessage]:
    """The messages that a topic held before the campaign. Raises ConfigurationError if some are already deleted."""
    for source, (earliest, end) in bounds.items():
        if source.topic != topic or not end:
            continue
        if earliest:
            raise ConfigurationError(
                f"{topic}: the first {earliest:,} messages of partition {source.partition} are deleted, so that nobody "
                f"can say what must come out: start from an empty topic"
            )
        for record in records_between(log, source, 0, end):
            if HEARTBEAT not in dict(record.headers):
                yield TopicMessage(source.partition, record.offset, record.value)


def messages_sent(
    load: Load, sent: int, bounds: Mapping[LogPartition, Bounds], stream: LoadStream
) -> Iterator[TopicMessage]:
    """A stream's messages of the campaign, generated again. sent: how many rows; bounds: of the topics before."""
    offsets = Counter({source: found.end for source, found in bounds.items()})
    # The pace determines the packets, and a single stream would get the pace of all streams.
    alone = replace(load.workload, streams=(stream,))
    own = replace(load, workload=alone, batch_rows=load.packet_rows, rows=sent, digests={})
    for packet in own.packets():
        for value in packet.values:
            yield TopicMessage(packet.target.partition, offsets[packet.target], value)
            offsets[packet.target] += 1


def parsed(messages: Iterable[TopicMessage], query: Query, stream: Stream) -> StreamRows:
    """A stream's rows, read by the independent reader."""
    columns = list(dict.fromkeys([*stream.schema, *(name for name in (stream.time, stream.key) if name is not None)]))
    found = rows.parse(_batches(messages), stream, columns, query.needs_time)
    return StreamRows.of(pa.Table.from_batches(found, rows.parsed_schema(stream)), query.needs_time)


def _batches(messages: Iterable[TopicMessage]) -> Iterator[pa.RecordBatch]:
    """The messages in batches for `rows.parse`."""
    types = pa.int32(), pa.int64(), pa.binary()
    source = iter(messages)
    while part := list(islice(source, PARSED)):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*part, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=list(rows.MESSAGE))
