"""Spark's data source `spojoin` on the real broker: results in tables, each row once, even if a process ends midway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import spojoin.spark
from loadgen.load import spark
from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from tests.support import racks
from tests.support.result_records import messages, result, with_rows
from tests.support.served import PATIENCE_S, SIZES, served

pytestmark = [pytest.mark.integration, pytest.mark.spark]

#: Spark's reason for ending a stream whose Python didn't connect in 10 s, as on a busy machine: to be started again.
GIVEN_UP = "Python worker failed to connect back"

#: A separate process that streams results into Parquet until it is killed.
STREAM = """
import sys
import spojoin.spark
from loadgen.load import spark
from pyspark.errors import StreamingQueryException

query, bootstrap, folder = sys.argv[1:]
session = spark.start()
spojoin.spark.register(session)
results = session.readStream.format("spojoin").option("query", query)
results = results.option("kafka.bootstrap.servers", bootstrap).load()
written = results.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
while True:
    try:
        written.start(folder + "/table").awaitTermination()
    except StreamingQueryException as error:
        if "GIVEN_UP" not in str(error):
            raise
""".replace("GIVEN_UP", GIVEN_UP)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    running = spark.start()
    spojoin.spark.register(running)
    yield running
    running.stop()


@pytest.fixture
def log(bootstrap: str) -> Iterator[KafkaLog]:
    found = KafkaLog(KafkaConfig(bootstrap))
    yield found
    found.close()


def batch(session: SparkSession, bootstrap: str, query: str, **options: object) -> DataFrame:
    return session.read.format("spojoin").options(**given(bootstrap, query, options)).load()


def stream(session: SparkSession, bootstrap: str, query: str, **options: object) -> DataFrame:
    return session.readStream.format("spojoin").options(**given(bootstrap, query, options)).load()


def given(bootstrap: str, query: str, options: dict[str, object]) -> dict[str, Any]:
    return {"query": query, "kafka.bootstrap.servers": bootstrap, **options}


def in_parquet(table: Path) -> list[tuple[object, ...]]:
    """The rows of a stream's table in the order of writing: batch by batch, task by task."""
    found: list[tuple[object, ...]] = []
    for log in sorted((path for path in (table / "_spark_metadata").glob("*") if path.name.isdigit()), key=number_of):
        files = [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
        for file in sorted(Path(each.removeprefix("file://")) for each in files):
            read = pq.ParquetFile(file).read()
            found += zip(*(read[name].to_pylist() for name in read.column_names), strict=True)
    return found


def number_of(path: Path) -> int:
    return int(path.name)


def batches_of(table: Path) -> int:
    return len([path for path in (table / "_spark_metadata").glob("*") if path.name.isdigit()])


def until(is_done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class Streaming:
    """A stream that is started again where Spark has given it up."""

    def __init__(self, written: DataStreamWriter, table: Path | None = None) -> None:
        self._start: Callable[[], StreamingQuery] = lambda: written.start(table and str(table))
        self.query = self._start()

    def is_active(self) -> bool:
        if not self.query.isActive and GIVEN_UP in str(self.query.exception()):
            self.query = self._start()
        return self.query.isActive

    def until(self, is_done: Callable[[], bool], what: str) -> None:
        """Stream until `is_done`, and stop."""
        until(lambda: not self.is_active() or is_done(), what)
        assert is_done(), f"the stream ended before {what}: {self.query.exception()}"
        self.query.stop()

    def end(self) -> None:
        """Stream all that is there.

        Raises:
            StreamingQueryException: As the stream did.
        """
        until(lambda: not self.is_active(), "an end")
        self.query.awaitTermination()


def feed(bootstrap: str, topic: str, table: Path) -> None:
    """Send the rows, first such that there are three micro-batches even on a slow machine, then at a steady rate."""
    producer, awaited = Producer({"bootstrap.servers": bootstrap}), {499: 1, 999: 2, 1499: 3}
    for number, row in enumerate(racks.rows()):
        producer.produce(topic, json.dumps(row).encode())
        if number % 100 == 99:
            producer.flush()
            time.sleep(0.4)
        if number in awaited:
            until(lambda: batches_of(table) >= awaited[number], "a micro-batch")  # noqa: B023
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def streaming_apart(folder: Path, query: str, bootstrap: str) -> Iterator[None]:
    """A streaming query in a separate process, which is killed with its JVM at the end of the block."""
    command = [sys.executable, "-c", STREAM, query, bootstrap, str(folder)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_stream_has_each_row_of_a_served_query_once(
    session: SparkSession, cluster: LocalCluster, bootstrap: str, tmp_path: Path
) -> None:
    answers, table = list(racks.expected()), tmp_path / "table"
    query, text = "results-source", racks.QUERY.replace("NAME", "results-source")
    with (
        served(cluster, tmp_path, text, 1, SIZES, columns=racks.COLUMNS, packing="together") as running,
        ThreadPoolExecutor() as pool,
    ):
        with streaming_apart(tmp_path, query, bootstrap):
            feeding = pool.submit(feed, bootstrap, running.topics["racks"], table)
            until(lambda: batches_of(table) >= 3 or feeding.done(), "three micro-batches")
            time.sleep(1)  # into the middle of a later one
        before = in_parquet(table)
        assert before == answers[: len(before)]
        assert 0 < len(before) < len(answers), "the stream was killed in the middle"
        results = stream(session, bootstrap, query).writeStream.format("parquet")
        results = results.option("checkpointLocation", str(tmp_path / "checkpoint"))
        Streaming(results, table).until(lambda: len(in_parquet(table)) > len(before), "more rows")
        feeding.result()
        running.until(lambda: len(running.output.rows) >= len(answers), lambda: f"{len(running.output.rows)} rows")
        for _ in range(2):  # the perhaps interrupted one, and the rest
            Streaming(results.trigger(availableNow=True), table).end()
    assert batches_of(table) >= 5
    assert in_parquet(table) == answers
    read = batch(session, bootstrap, query)
    assert [field.simpleString() for field in read.schema] == [
        "id:bigint", "other:bigint", "site:string", "gap:double", "l_seq:bigint", "r_seq:bigint",
    ]  # fmt: skip
    assert [tuple(row) for row in read.collect()] == answers
    assert [tuple(row) for row in batch(session, bootstrap, query, minPartitions=7).collect()] == answers


@pytest.fixture
def topic(log: KafkaLog, bootstrap: str, unique: str) -> str:
    """The results of a query `unique`, some of whose transactions were aborted; x counts from 0 to 11."""
    name = f"{unique}.results"
    log.create_topics({name: 1})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions()
    for frames, is_committed in (((0, 1), True), ((2, 3), False), ((2,), True), ((3, 4), False), ((3,), False)):
        send(producer, name, frames, is_committed)
    send(producer, name, (3, 4, 5), True)
    send(producer, name, (6,), False)
    return name


def send(producer: Producer, topic: str, frames: tuple[int, ...], is_committed: bool) -> None:
    """Send frames in one transaction: frame f has the rows 2 f and 2 f + 1, or others if it is aborted."""
    producer.begin_transaction()
    for frame in frames:
        values = [2 * frame, 2 * frame + 1] if is_committed else [-frame]
        (message,) = messages([result(frame, values)])
        producer.produce(topic, message.value, headers=list(message.headers.items()))
    producer.flush()  # aborted records are in the topic
    producer.commit_transaction() if is_committed else producer.abort_transaction()


def test_aborted_transactions_are_no_results(
    session: SparkSession, bootstrap: str, topic: str, unique: str, log: KafkaLog
) -> None:
    records_and_markers = 12 + 7  # a marker may come after its transaction's end is acknowledged
    until(lambda: log.end(LogPartition(topic, 0)) == records_and_markers, "all transactions and their markers")
    for tasks in (1, 3, records_and_markers):
        read = batch(session, bootstrap, unique, minPartitions=tasks)
        assert read.rdd.getNumPartitions() == tasks
        assert [row.x for row in read.collect()] == list(range(12))


def test_a_repeated_micro_batch_has_the_same_rows(
    session: SparkSession, bootstrap: str, topic: str, unique: str, tmp_path: Path
) -> None:
    """A micro-batch whose commit is lost is read again."""
    taken: dict[int, list[list[int]]] = {}

    def take(rows: DataFrame, number: int) -> None:
        taken.setdefault(number, []).append([row.x for row in rows.collect()])

    written = stream(session, bootstrap, unique, minPartitions=4).writeStream.foreachBatch(take)
    written = written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions()
    Streaming(written).end()
    send(producer, topic, (6,), False)
    send(producer, topic, (6, 7), True)
    Streaming(written).end()
    for file in ("1", ".1.crc"):
        (tmp_path / "commits" / file).unlink()
    send(producer, topic, (8,), True)
    for _ in range(2):  # the repeated one, and the next one
        Streaming(written).end()
    assert taken == {0: [list(range(12))], 1: [list(range(12, 16))] * 2, 2: [[16, 17]]}


def test_from_now_on(session: SparkSession, bootstrap: str, topic: str, unique: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions()
    found = stream(session, bootstrap, unique, startingOffsets="latest").writeStream.format("parquet")
    running = Streaming(found.option("checkpointLocation", str(tmp_path / "checkpoint")), tmp_path / "table")
    offsets = tmp_path / "checkpoint/offsets"
    until(
        lambda: running.is_active() and offsets.exists() and running.query.status["message"].startswith("Wait"),
        "a start",
    )
    send(producer, topic, (6, 7), True)
    running.until(lambda: len(in_parquet(tmp_path / "table")) == 4, "four rows")
    assert in_parquet(tmp_path / "table") == [(12,), (13,), (14,), (15,)]


def test_results_that_are_gone_are_an_error(
    session: SparkSession, bootstrap: str, topic: str, unique: str, tmp_path: Path, log: KafkaLog
) -> None:
    written = stream(session, bootstrap, unique).writeStream.format("parquet")
    written = written.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    Streaming(written, tmp_path / "table").end()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions()
    end = log.end(LogPartition(topic, 0))
    send(producer, topic, (6,), True)
    send(producer, topic, (7,), True)
    log.trim(LogPartition(topic, 0), end + 2)
    until(lambda: log.bounds(LogPartition(topic, 0)).earliest == end + 2, "a trim")
    with pytest.raises(
        StreamingQueryException, match=f"from offset {end} to {end + 2} were deleted before they were read"
    ):
        Streaming(written, tmp_path / "table").end()
    log.delete_topics([topic])
    until(lambda: not log.partitions(topic), "a deletion")
    log.create_topics({topic: 1})
    send(producer, topic, tuple(range(30)), True)
    with pytest.raises(StreamingQueryException, match="was deleted and made anew"):
        Streaming(written, tmp_path / "table").end()


def test_a_generation_with_other_columns_is_an_error_and_can_be_read_alone(
    session: SparkSession, bootstrap: str, topic: str, unique: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    rows = pa.RecordBatch.from_pydict({"x": ["a", "b"], "at": pa.array([0, None], pa.timestamp("us"))})
    (message,) = messages([with_rows(result(0, [], generation=2), rows)])
    producer.produce(topic, message.value, headers=list(message.headers.items()))
    producer.flush()
    with pytest.raises(Exception, match=r"generation 2 of query .* answers with other columns \(x string, at .*=2"):
        batch(session, bootstrap, unique).collect()
    assert [row.x for row in batch(session, bootstrap, unique, generation=1).collect()] == list(range(12))
    second = batch(session, bootstrap, unique, generation=2)
    assert dict(second.dtypes) == {"x": "string", "at": "timestamp_ntz"}
    assert [tuple(row) for row in second.collect()] == [("a", datetime(1970, 1, 1)), ("b", None)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"query": ""}, "option 'query' is missing"),
        ({"kafka.bootstrap.servers": ""}, "option 'kafka.bootstrap.servers' is missing"),
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"startingOffsets": "latest"}, "use spark.readStream"),
        ({"query": "nobodys"}, "Kafka has no topic 'nobodys.results': start the services"),
    ],
)
def test_a_wrong_option_is_a_sentence_before_any_job(session, bootstrap, topic, unique, options, sentence) -> None:
    with pytest.raises(AnalysisException, match=sentence):
        session.read.format("spojoin").options(**{**given(bootstrap, unique, {}), **options}).load().collect()
