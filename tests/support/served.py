"""One query's services on the real broker and Redis, and their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from spojoin.local.children import Children
from spojoin.local.cluster import LocalBrokers, LocalCluster, Servers
from spojoin.local.net import LOOPBACK
from spojoin.local.redis import LocalRedis
from spojoin.local.serve import ServePlan, serve
from spojoin.local.supervise import Service, Supervisor
from spojoin.model import Query
from spojoin.protocol.packing import APART
from spojoin.protocol.topology import Topic, input_topic, topic_name
from spojoin.query.load import load_query

#: Time limit of the whole output: a liveness bound, far above the normal time.
PATIENCE_S = 300
#: Small frames and batches, so that much is in flight whenever a service dies.
SIZES = {"frame_tuples": "256", "batch_tuples": "500", "credits_frames": "32"}
#: A packing with few processes and a separate sink, for kills in tests that are not about packings.
SINK_ALONE = "router+mutable+permutation+pojoin+logical-and"
#: The same with separate workers, of a layout without batches.
WORKERS_ALONE = "router+logical-and+sink"
#: The columns of a self join's counts.
COUNTS = ("seq", "key", "as_left", "as_right")


class BrokersCluster(NamedTuple):
    """Like `LocalCluster`, with several brokers."""

    children: Children
    broker: LocalBrokers
    redis: LocalRedis

    @property
    def servers(self) -> Servers:
        """The cluster as services see it."""
        return Servers(self.children, self.broker.bootstrap, self.redis.url)


def committed_reader(bootstrap: str, topic: str, offset: int = 0, partitions: int = 1) -> Consumer:
    """A consumer of a topic's partitions that skips what was never committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
    return consumer


class Output:
    """Reads the results as any consumer of committed records may, by the readers' rule.

    answered: how many tuples the results so far cover
    """

    def __init__(self, bootstrap: str, query: Query, columns: Sequence[str] = COUNTS, sinks: int = 1) -> None:
        self._consumer = committed_reader(bootstrap, topic_name(query.name, Topic.RESULTS), partitions=sinks)
        self._columns = columns
        self._next = [(number, 0) for number in range(sinks)]
        self._rows: dict[int, list[tuple[int, ...]]] = {}
        self.answered = 0

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The named columns of all results so far, by frame."""
        return [row for _, rows in sorted(self._rows.items()) for row in rows]

    @property
    def frames(self) -> int:
        """How many frames have results in every partition."""
        return min(frame for frame, _ in self._next)

    def read_on(self, timeout_s: float) -> None:
        for message in self._consumer.consume(100, timeout_s):
            if message.error() is None:
                assert message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
                self._take(message.partition(), dict(message.headers() or ()), message.value())

    def _take(self, partition: int, headers: dict[str, bytes], value: bytes) -> None:
        frame, begin, end = (int(headers[f"spojoin-{name}"]) for name in ("frame", "begin", "end"))
        if (frame, begin) != self._next[partition]:
            assert (frame, begin) < self._next[partition], "a result is missing"
            return
        self._next[partition] = (frame + len(self._next), 0) if headers["spojoin-last"] == b"1" else (frame, end)
        self.answered += end - begin
        table = pa.ipc.open_stream(value).read_all()
        self._rows.setdefault(frame, []).extend(zip(*(table[name].to_pylist() for name in self._columns), strict=True))

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True, slots=True)
class Served:
    """The services, all of them ready. topics: the inputs, by stream"""

    query: Query
    query_file: Path
    topics: Mapping[str, str]
    services: Mapping[str, Service]
    supervisor: Supervisor
    output: Output

    def kill(self, name: str) -> None:
        os.kill(self.supervisor.pids()[name], signal.SIGKILL)

    def read_until(self, tuples: int) -> None:
        """Read results until this number of tuples is answered, restarting services that have died."""
        self.until(lambda: self.output.answered >= tuples, lambda: f"{self.output.answered} of {tuples} answered")

    def until(self, is_done: Callable[[], bool], account: Callable[[], str]) -> None:
        """Read results until done; after the time limit, fail with the progress that `account` reports."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_done():
            self.supervisor.tend()
            self.output.read_on(0.2)
            assert time.monotonic() < deadline, account()

    def measured(self, service: str, metric: str, **labels: str) -> float:
        """The sum of the service's samples with these labels."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.services[service].port}/metrics", timeout=30) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples if sample.name == metric]
        assert samples, f"{service} doesn't report {metric}"
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


@contextmanager
def served(
    cluster: LocalCluster | BrokersCluster,
    folder: Path,
    text: str,
    workers: int,
    settings: Mapping[str, str],
    *,
    partitions: int = 1,
    restarts_max: int = 3,
    without: Collection[str] = (),
    columns: Sequence[str] = COUNTS,
    joiners: int | None = None,
    packing: str = APART,
    standbys: bool = False,
) -> Iterator[Served]:
    """Serve the query `text` from its own input topics, without the services `without`.

    columns: the columns of results in `rows`; joiners: mutable joiners, None for one per predicate; packing: which
    roles share a process; standbys: whether each process has a second instance
    """
    query_file = folder / "query.yaml"
    query_file.write_text(text)
    query = load_query(query_file)
    topics = {
        stream.name: f"{query.name}.{input_topic(stream.name)}" for stream in query.inputs if stream.query is None
    }
    plan = ServePlan(
        query,
        query_file,
        workers,
        joiners,
        packing,
        standbys,
        settings,
        topics,
        partitions,
        folder / "logs",
        restarts_max,
        without,
    )
    output = Output(cluster.broker.bootstrap, query, columns, int(settings.get("sinks", 1)))
    try:
        with serve(plan, cluster.servers) as running:
            yield Served(query, query_file, topics, running.services, running.supervisor, output)
    finally:
        output.close()


def send(running: Served, cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command that sends files to a query's inputs."""
    command = [sys.executable, "-m", "spojoin.cli.main", "send", str(running.query_file), *arguments]
    environment = {
        **os.environ,
        "SPOJOIN_INPUT_TOPICS": orjson.dumps(dict(running.topics)).decode(),
        "SPOJOIN_BOOTSTRAP_SERVERS": cluster.broker.bootstrap,
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def as_arrow(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
