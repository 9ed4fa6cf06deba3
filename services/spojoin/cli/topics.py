"""A query's topics: creates them, writes files into its inputs and prints its results."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from spojoin.embedded.inputs import InputFile, balanced, open_inputs
from spojoin.embedded.kafka_only import check_no_envelope, check_no_results
from spojoin.embedded.writers import TEXT_ROWS, json_lines
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogRecord
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, source_topic, topic_name
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.service import create_topics
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics
from spojoin.wire.chain import ResultSequence
from spojoin.wire.registered import PREFIX_BYTES
from spojoin.wire.results import (
    ARROW_STREAM,
    BEGIN,
    CONTENT_TYPE,
    JSON,
    REGISTERED_AVRO,
    REGISTERED_JSON,
    progress,
    result_from_message,
)

MESSAGE_ROWS = 4_096
FLUSH_TIMEOUT_S = 60.0
POLL_S = 0.5
RECORDS_MAX = 1_000


def kafka_of(settings: Settings) -> KafkaConfig:
    """How the settings reach Kafka."""
    return KafkaConfig(settings.bootstrap_servers, settings.kafka_properties())


def make_topics(query: Query, settings: Settings, partitions: int | None) -> dict[str, int]:
    """Make the topics of the generation that answers, and the inputs if their number of `partitions` is given.

    Returns the partitions of each. Raises LogUnavailable where Kafka does not answer, or refuses.
    """
    log = KafkaLog(kafka_of(settings))
    try:
        topics = Topics.of(query, settings.workers_max, settings.input_topics, current_generation(log, query.name))
        create_topics(log, topics, settings.results_bytes_max)
        if partitions is not None:
            log.create_topics(dict.fromkeys(topics.fed, partitions))
            if topics.table is not None:
                log.create_topics({topics.table: 1}, is_compacted=True)
        inputs = topics.fed if partitions is not None else ()
        return {name: log.partitions(name) for name in (*inputs, *topics.trimmed(), *topics.kept())}
    finally:
        log.close()


def current_generation(log: Log[bytes], query: str) -> int:
    """The generation of a query that answers; creates its topic if missing. Raises LogUnavailable."""
    log.create_topics({topic_name(query, Topic.GENERATIONS): 1})
    return GenerationsTopic(log, query).read().current_number


@dataclass(slots=True)
class Sent:
    """What became of files' lines: the rows sent to each topic, and those left out because they are no rows.

    first: a sentence about the first of these
    """

    rows: dict[str, int]
    malformed: int = 0
    first: str = ""

    def leave_out(self, file: InputFile, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch that `file` gave last, without what is no row."""
        if not file.refused:
            return batch
        row, why = next(iter(file.refused.items()))
        self.first = self.first or f"{file.stream.name}, position {file.rows - batch.num_rows + row}: {why}"
        self.malformed += len(file.refused)
        return batch.take(pa.array([at for at in range(batch.num_rows) if at not in file.refused], pa.int64()))


def send_files(query: Query, paths: Mapping[str, Path], settings: Settings) -> Sent:
    """Append the files' rows to the input topics, partitions in turn."""
    query = _without_table(query, paths)
    check_no_envelope(query)
    check_no_results(query, paths)
    log = KafkaLog(kafka_of(settings))
    names = {stream.name: settings.input_topics.get(stream.name, source_topic(stream)) for stream in query.streams}
    partitions = {stream: _partitions(log, name) for stream, name in names.items()}
    sent = Sent(dict.fromkeys(names.values(), 0))
    writer = log.writer()
    try:
        for file, batch in balanced(open_inputs(query, paths)):
            if batch is None:
                continue
            topic, rows = names[file.stream.name], sent.leave_out(file, batch)
            for message in _messages(rows):
                partition = sent.rows[topic] // MESSAGE_ROWS % partitions[file.stream.name]
                writer.append(LogPartition(topic, partition), message, ((CONTENT_TYPE, ARROW_STREAM),))
            sent.rows[topic] += rows.num_rows
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()
        log.close()
    return sent


def _without_table(query: Query, paths: Mapping[str, Path]) -> Query:
    """The query of the streams alone: messages of a table have keys, which a file's rows don't tell."""
    table = query.streams[-1]
    if not query.has_table:
        return query
    if table.name in paths:
        raise ConfigurationError(
            f"{table.name} is a table, of whose messages the keys count: write them with a producer of yours"
        )
    return replace(query, streams=query.streams[:1])


def print_results(query: Query, settings: Settings, out: BinaryIO, *, is_following: bool) -> None:
    """Write all results as JSON lines, in order, each once; wait for more if `is_following`."""
    log = KafkaLog(kafka_of(settings))
    source = LogPartition(topic_name(query.name, Topic.RESULTS), 0)
    _partitions(log, source.topic)
    reader = log.reader()
    try:
        end = None if is_following else log.bounds(source).end
        reader.open(source, log.bounds(source).earliest)
        records = _records(reader, lambda: end is not None and reader.position(source) >= end)
        for text in _texts(records, RegisteredResults(settings)):
            out.write(text)
            out.flush()
    finally:
        reader.close()
        log.close()


def _partitions(log: KafkaLog, topic: str) -> int:
    count = log.partitions(topic)
    if not count:
        raise ConfigurationError(f"Kafka has no topic {topic!r}: start the services first (spojoin up), or make it")
    return count


def _messages(batch: pa.RecordBatch) -> Iterator[bytes]:
    for start in range(0, batch.num_rows, MESSAGE_ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch.slice(start, MESSAGE_ROWS))
        yield sink.getvalue().to_pybytes()


def _records(reader: LogReader[bytes], is_at_end: Callable[[], bool]) -> Iterator[LogRecord[bytes]]:
    while True:
        found = reader.poll(RECORDS_MAX, POLL_S)
        yield from found
        if not found and is_at_end():
            return


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, default=_as_text) + b"\n"


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _texts(records: Iterable[LogRecord[bytes]], registered: RegisteredResults) -> Iterator[bytes]:
    """New results as JSON lines, from any format of the topic."""
    chain = ResultSequence()
    for record in records:
        headers = dict(record.headers)
        if not chain.takes(int(headers[BEGIN]), progress(headers)):
            continue
        if headers.get(CONTENT_TYPE) == JSON:
            yield record.value + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == REGISTERED_JSON:
            yield record.value[PREFIX_BYTES:] + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == REGISTERED_AVRO:
            yield _line(registered.row(record.value)) if record.value else b""
        else:
            rows = result_from_message(headers, record.value).rows
            yield from (bytes(json_lines(rows.slice(at, TEXT_ROWS))) for at in range(0, rows.num_rows, TEXT_ROWS))
