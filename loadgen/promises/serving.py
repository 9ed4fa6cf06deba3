"""Tuples into an input topic: as fast as possible, or on a fixed schedule."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa
import redis

from loadgen.load.messages import ipc_bytes, json_objects
from loadgen.load.open_loop import FLUSH_TIMEOUT_S, OpenLoop, Packet, WriterSender
from loadgen.load.tap import ResultsTap
from loadgen.promises.data import Columns, self_join_text
from loadgen.promises.sizes import PromiseSizes
from spojoin.local.cluster import LocalCluster
from spojoin.local.serve import ServePlan, make_topics, serve
from spojoin.local.supervise import Supervisor
from spojoin.local.usage import Usage, usage_of
from spojoin.ports.interfaces import Log, LogPartition, LogWriter
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.packing import APART
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_query

#: Rows of an Arrow message in measurements of throughput.
MESSAGE_ROWS = 4_096
#: Time between the messages of a paced stream.
INTERVAL_S = 0.01


def arrow_messages(data: Columns | pa.Table, rows: int = MESSAGE_ROWS) -> Iterator[bytes]:
    """All tuples as Arrow IPC streams of `rows` rows."""
    return map(ipc_bytes, _table(data).to_batches(rows))


def json_messages(data: Columns | pa.Table) -> Iterator[bytes]:
    """One JSON object per tuple."""
    return (value for batch in _table(data).to_batches(MESSAGE_ROWS) for value in json_objects(batch))


def _table(data: Columns | pa.Table) -> pa.Table:
    return data if isinstance(data, pa.Table) else data.table()


def fill(log: Log[bytes], target: LogPartition, messages: Iterable[bytes]) -> None:
    """Append messages to a partition, and wait until they are readable."""
    append_all(log, ((target, message) for message in messages))


def append_all(log: Log[bytes], messages: Iterable[tuple[LogPartition, bytes]]) -> None:
    """The same with messages to several partitions, by one writer, since each takes a while to connect."""
    writer = log.writer()
    try:
        for target, message in messages:
            writer.append(target, message)
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()


class PacedProducer(OpenLoop):
    """Appends a message every INTERVAL_S in its own thread.

    A message carries the time at which it was due, so that a late one makes its tuples later, not fewer.

    Args:
        writer: appends; closed at the end.
        target: the partition.
        messages: made beforehand.

    """

    def __init__(self, writer: LogWriter[bytes], target: LogPartition, messages: Sequence[bytes]) -> None:
        packets = (Packet(number * INTERVAL_S, target, [message], 1) for number, message in enumerate(messages))
        super().__init__(WriterSender(writer), packets)


BROKER, REDIS, READER = "broker", "redis", "the reader of results"
#: On two cores, a second worker costs more than it saves, since frames are read twice.
WORKERS = 1


@dataclass(frozen=True, slots=True)
class Way:
    """A way to serve a query: the roles that share a process, and whether the sink writes in transactions.

    workers: of PO-Join; division: settings that say how many of what else there are
    """

    packing: str = APART
    transactions: bool = True
    results: str = "frames"
    workers: int = WORKERS
    division: Mapping[str, str] = field(default_factory=dict)


PLAIN = Way()


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query with topics but without running services."""

    plan: ServePlan
    cluster: LocalCluster
    log: KafkaLog
    input: LogPartition
    way: Way


@dataclass(frozen=True, slots=True)
class MeasuredServices:
    """Running services. `tap` reads their results."""

    prepared: PreparedQuery
    supervisor: Supervisor
    tap: ResultsTap

    def tend(self) -> None:
        """Raise ServiceError if a service has ended."""
        self.supervisor.tend()

    def usage(self) -> dict[str, Usage]:
        """The usage so far of each service, the broker, Redis and this process, which reads the results."""
        cluster = self.prepared.cluster
        pids = {
            **self.supervisor.pids(),
            BROKER: cluster.broker.pid,
            REDIS: _redis_pid(cluster.redis.url),
            READER: os.getpid(),
        }
        found = {name: usage_of(pid) for name, pid in pids.items() if pid is not None}
        return {name: usage for name, usage in found.items() if usage is not None}


def planned(name: str, sizes: PromiseSizes, folder: Path, text: str | None = None, way: Way = PLAIN) -> ServePlan:
    """How a query called `name` is served; its input topic has the same name.

    text: the query file; by default of `self_join_text`
    """
    query_file = folder / f"{name}.yaml"
    query_file.write_text(self_join_text(sizes.window, sizes.slide, name=name) if text is None else text)
    return ServePlan(
        load_query(query_file),
        query_file,
        way.workers,
        packing=way.packing,
        settings={
            "credits_frames": str(sizes.credits_frames),
            "transactions": str(way.transactions),
            "results_format": way.results,
            **way.division,
        },
        input_topics={"rows": f"in.{name}"},
        logs=folder / f"{name}-logs",
    )


@contextmanager
def prepared(
    cluster: LocalCluster, name: str, sizes: PromiseSizes, folder: Path, text: str | None = None, way: Way = PLAIN
) -> Iterator[PreparedQuery]:
    """Make the topics of a query; arguments as of `planned`."""
    plan = planned(name, sizes, folder, text, way)
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    try:
        make_topics(plan, cluster.servers)
        yield PreparedQuery(plan, cluster, log, LogPartition(plan.input_topics["rows"], 0), way)
    finally:
        log.close()


@contextmanager
def measured(ready: PreparedQuery) -> Iterator[MeasuredServices]:
    """Start the services and end them with the block; a service that ends by itself is an error.

    Results are read from the first one on, so nothing waits for the services to be ready.
    """
    reader, topic = ready.log.reader(), topic_name(ready.plan.query.name, Topic.RESULTS)
    first, *others = (LogPartition(topic, number) for number in range(ready.log.partitions(topic)))
    tap = ResultsTap(reader, first, others=[(each, 0) for each in others])
    try:
        with serve(ready.plan, ready.cluster.servers, is_awaited=False) as served:
            yield MeasuredServices(ready, served.supervisor, tap)
    finally:
        reader.close()


def _redis_pid(url: str) -> int:
    """The process id of Redis, if it runs on this machine."""
    with redis.Redis.from_url(url) as client:
        about = cast("dict[str, int]", client.info("server"))
    return about["process_id"]
