"""All services on the real broker and Redis, killed one after the other while data flows.

Every service dies by SIGKILL at least once, the broker once with its data kept, and Redis is emptied twice. The ordered
output has the same SHA-256 as a nested loop over the inputs, for one worker and for three.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
import redis
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition

from spojoin.cli.services import Deployment, services_of
from spojoin.cli.supervise import Supervisor
from spojoin.protocol.topology import Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.query.model import Query
from spojoin.runtime.kafka import KafkaConfig, KafkaLog
from spojoin.runtime.local.cluster import LocalCluster, local_cluster

pytestmark = pytest.mark.integration

TUPLES = 40_000
WINDOW, SLIDE = 5_000, 500
MESSAGE_ROWS = 250
DOMAIN = 60  # few values, so that ties are everywhere
#: How long the whole output may take; a liveness bound, far from what is normal.
PATIENCE_S = 300

QUERY = f"""
name: NAME
streams:
  readings:
    schema: {{draw: double, cooling: long}}
    key: id
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '{SLIDE}' ON '{WINDOW}')
order: arrival
output: count
"""

#: Small frames and batches, so that much is under way whenever something dies.
SIZES = {"frame_tuples": "256", "batch_tuples": "500", "credits_frames": "32"}


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """A broker and a Redis of this module's own: they are killed and emptied here."""
    with local_cluster() as running:
        yield running


def columns() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.integers(0, DOMAIN, TUPLES) / 4, rng.integers(0, DOMAIN, TUPLES)


def digest(rows: Iterator[tuple[int, int, int, int]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(b"%d %d %d %d\n" % row)
    return sha.hexdigest()


def expected(operator: str = ">=") -> Iterator[tuple[int, int, int, int]]:
    """(seq, key, as_left, as_right) of each tuple, by the definition: every earlier tuple of the window counts.

    `operator` compares the second column, `>=` or `=`.
    """
    draw, cooling = columns()
    compare = {">=": np.greater_equal, "=": np.equal}[operator]
    for seq in range(TUPLES):
        window = slice(max(0, -(-seq // SLIDE) * SLIDE - WINDOW), seq)
        as_left = (draw[seq] < draw[window]) & compare(cooling[seq], cooling[window])
        as_right = (draw[window] < draw[seq]) & compare(cooling[window], cooling[seq])
        yield seq, seq, int(as_left.sum()), int(as_right.sum())


@pytest.fixture(scope="module")
def expected_digest() -> str:
    return digest(expected())


def feed(bootstrap: str, topic: str, stop: threading.Event, pace_s: float) -> None:
    """Arrow and JSON messages in turn, each row once and in order, also across a restart of the broker."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000})
    draw, cooling = columns()
    for number, first in enumerate(range(0, TUPLES, MESSAGE_ROWS)):
        rows = range(first, first + MESSAGE_ROWS)
        if number % 2:
            table = {"draw": draw[rows], "cooling": cooling[rows], "id": np.arange(first, first + MESSAGE_ROWS)}
            producer.produce(topic, as_arrow(pa.record_batch(table)))
        else:
            for i in rows:
                producer.produce(topic, orjson.dumps({"draw": float(draw[i]), "cooling": int(cooling[i]), "id": i}))
        producer.poll(0)
        if stop.wait(pace_s):
            break
    assert producer.flush(PATIENCE_S) == 0


def as_arrow(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


class Output:
    """Reads the results as any consumer of committed records may, by the readers' rule."""

    def __init__(self, bootstrap: str, query: Query) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(topic_name(query.name, Topic.RESULTS), 0, 0)])
        self._next = (0, 0)
        self.rows: list[tuple[int, int, int, int]] = []

    def read_on(self, timeout_s: float) -> None:
        for message in self._consumer.consume(100, timeout_s):
            if message.error() is None:
                assert message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
                self._take(dict(message.headers() or ()), message.value())

    def _take(self, headers: dict[str, bytes], value: bytes) -> None:
        frame, begin, end = (int(headers[f"spojoin-{name}"]) for name in ("frame", "begin", "end"))
        if (frame, begin) != self._next:
            assert (frame, begin) < self._next, "a result is missing"
            return
        self._next = (frame + 1, 0) if headers["spojoin-last"] == b"1" else (frame, end)
        table = pa.ipc.open_stream(value).read_all()
        names = ("seq", "key", "as_left", "as_right")
        self.rows += zip(*(table[name].to_pylist() for name in names), strict=True)

    def close(self) -> None:
        self._consumer.close()


class Faults:
    """Kills every service once, the broker once, and empties Redis twice, some seconds apart."""

    def __init__(self, cluster: LocalCluster, supervisor: Supervisor, names: list[str]) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._names = names
        self.done: list[str] = []

    def run(self) -> None:
        for number, name in enumerate(self._names):
            time.sleep(1.5)
            os.kill(self._supervisor.pids()[name], signal.SIGKILL)
            self.done.append(name)
            if number in (1, len(self._names) - 2):
                self._empty_redis()
            if number == len(self._names) // 2:
                self._restart_broker()

    def _empty_redis(self) -> None:
        redis.Redis.from_url(self._cluster.redis.url).flushall()
        self.done.append("redis")

    def _restart_broker(self) -> None:
        self._cluster.broker.kill()
        self._cluster.broker.start()
        self.done.append("broker")


@pytest.mark.parametrize(("workers", "transactions"), [(1, True), (3, False)])
def test_every_part_may_die(
    own_cluster: LocalCluster, tmp_path: Path, expected_digest: str, workers: int, transactions: bool
) -> None:
    name = f"faults-{workers}"
    query_file = tmp_path / "query.yaml"
    query_file.write_text(QUERY.replace("NAME", name))
    query = load_query(query_file)
    topic = f"{name}.{input_topic('readings')}"
    KafkaLog(KafkaConfig(own_cluster.broker.bootstrap)).create_topics({topic: 1, f"{topic}.dlq": 1})
    settings = {**SIZES, "transactions": str(transactions), "input_topics": orjson.dumps({"readings": topic}).decode()}
    deployment = Deployment(
        query, query_file, own_cluster.broker.bootstrap, own_cluster.redis.url, workers=workers, extra=settings
    )
    services = services_of(deployment)
    stop = threading.Event()
    output = Output(own_cluster.broker.bootstrap, query)
    with (
        Supervisor(own_cluster.children, tmp_path / "logs", restarts_max=20) as supervisor,
        ThreadPoolExecutor() as pool,
    ):
        supervisor.start(services)
        supervisor.wait_ready()
        faults = Faults(own_cluster, supervisor, [service.name for service in services])
        try:
            background = [pool.submit(feed, own_cluster.broker.bootstrap, topic, stop, 0.1), pool.submit(faults.run)]
            watch(output, supervisor, faults, background)
        finally:
            stop.set()
            output.close()
    assert {service.name for service in services} | {"broker", "redis"} <= set(faults.done)
    assert faults.done.count("redis") == 2
    assert [row[0] for row in output.rows] == list(range(TUPLES))
    assert digest(iter(output.rows)) == expected_digest


def watch(output: Output, supervisor: Supervisor, faults: Faults, background: list[Future[None]]) -> None:
    """Read results until all are here and all faults have happened, restarting what has died."""
    deadline = time.monotonic() + PATIENCE_S
    while len(output.rows) < TUPLES or not all(task.done() for task in background):
        supervisor.tend()
        output.read_on(0.5)
        assert time.monotonic() < deadline, f"{len(output.rows)} of {TUPLES} results; faults so far: {faults.done}"
        for task in background:
            if task.done():
                task.result()
