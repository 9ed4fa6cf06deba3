"""Section `results_source`: results of a query as rows of Spark, by the data source and by Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import spojoin.spark
from loadgen.bench.measurement import Measurement, best_seconds
from loadgen.load import spark
from loadgen.promises.sizes import Context
from spojoin.local.cluster import local_cluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.wire.records import Result
from spojoin.wire.results import BEGIN, ResultSequence, progress, result_from_message, result_to_message

LARGE, SMALL = 8_192, 512
CORES, REPEATS = 2, 3
#: The number of frames that a busy sink writes in a transaction.
TRANSACTION_FRAMES = 4
DATA_SOURCE, KAFKA_SOURCE = "data source", "Kafka source and mapInArrow"
COLUMNS = "id long, other long, gap double, site string, at timestamp_ntz"


def measure(context: Context) -> Iterator[Measurement]:
    """Rows/s of a batch read by both ways, for results in large and in small frames; both must count alike."""
    with local_cluster() as cluster:
        bootstrap = cluster.broker.bootstrap
        session = spark.start(cores=CORES, name="results_source")
        try:
            spojoin.spark.register(session)
            for frame_rows in (LARGE, SMALL):
                context.say(f"results in frames of {frame_rows:,} rows")
                query = f"results-{frame_rows}"
                rows = write_results(bootstrap, query, context.sizes.services_after, frame_rows)
                yield from _compared(session, bootstrap, query, rows, frame_rows)
        finally:
            session.stop()


def _compared(session: SparkSession, bootstrap: str, query: str, rows: int, frame_rows: int) -> Iterator[Measurement]:
    frames = {
        DATA_SOURCE: by_data_source(session, bootstrap, query),
        KAFKA_SOURCE: by_kafka_source(session, bootstrap, query),
    }
    for name, frame in frames.items():
        if (found := frame.count()) != rows:
            raise ValueError(f"{name}: {found:,} rows, expected {rows:,}")
    best = best_seconds({name: partial(read_all, frame) for name, frame in frames.items()}, REPEATS)
    for name, took in best.items():
        yield Measurement(
            f"{name}, frames of {frame_rows:,}", rows / took, "rows/s", note=f"local[{CORES}], {rows:,} rows"
        )
    ratio = best[KAFKA_SOURCE] / best[DATA_SOURCE]
    yield Measurement(f"{DATA_SOURCE} / {KAFKA_SOURCE}, frames of {frame_rows:,}", ratio, "times")


def by_data_source(session: SparkSession, bootstrap: str, query: str) -> DataFrame:
    """All results, by `format("spojoin")`."""
    options = {"query": query, "kafka.bootstrap.servers": bootstrap, "minPartitions": str(CORES)}
    return session.read.format("spojoin").options(**options).load()


def by_kafka_source(session: SparkSession, bootstrap: str, query: str) -> DataFrame:
    """All results from Spark's Kafka source, decoded in Python."""
    options = {
        **spark.Kafka(bootstrap, {"isolation.level": "read_committed"}).options(),
        "subscribe": topic_name(query, Topic.RESULTS),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "minPartitions": str(CORES),
    }
    records = session.read.format("kafka").options(**options).load().select("value", "headers")
    return records.mapInArrow(decoded, COLUMNS)


def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of records with columns `value` and `headers`, without a task's duplicates."""
    sequence = ResultSequence()
    for batch in batches:
        for value, listed in zip(batch.column("value"), batch.column("headers"), strict=True):
            headers = {each["key"]: each["value"] for each in listed.as_py()}
            if sequence.accepts(int(headers[BEGIN]), progress(headers)):
                yield result_from_message(headers, value.as_buffer()).rows


def write_results(bootstrap: str, query: str, rows: int, frame_rows: int) -> int:
    """Write a query's results in transactions, as its sink does; returns their number of rows."""
    log = KafkaLog(KafkaConfig(bootstrap))
    topic = LogPartition(topic_name(query, Topic.RESULTS), 0)
    log.create_topics({topic.topic: 1})
    writer = log.writer(query)
    frames = -(-rows // frame_rows)
    for frame in range(frames):
        message = result_to_message(_result(frame, frame_rows))
        writer.append(topic, message.value, tuple(message.headers.items()))
        if frame % TRANSACTION_FRAMES == TRANSACTION_FRAMES - 1 or frame == frames - 1:
            writer.flush(60.0)
    writer.close()
    log.close()
    return frames * frame_rows


def _result(frame: int, rows: int) -> Result:
    numbers = np.arange(frame * rows, (frame + 1) * rows)
    columns = {
        "id": numbers,
        "other": numbers // 3,
        "gap": numbers / 7,
        "site": pa.array(["north", "south", "", "east"] * (rows // 4)),
        "at": pa.array(numbers * 1_000, pa.timestamp("us")),
    }
    nothing = np.empty(0, np.int64), np.empty(0, np.uint32)
    return Result(frame, 0, rows, True, pa.RecordBatch.from_pydict(columns), *nothing, matches=rows, probes=numbers)


def read_all(frame: DataFrame) -> None:
    """Read every column of every row, and drop them."""
    frame.write.format("noop").mode("overwrite").save()
