"""All services of the benchmark's query over the local broker and Redis, and what their processes use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import redis

from loadgen.load.tap import ResultsTap
from loadgen.promises.data import self_join_text
from loadgen.promises.sizes import PromiseSizes
from spojoin.local.cluster import LocalCluster
from spojoin.local.serve import ServePlan, make_topics, serve
from spojoin.local.supervise import Supervisor
from spojoin.local.usage import Usage, usage_of
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.packing import APART
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_query

BROKER, REDIS, READER = "broker", "redis", "the reader of results"
#: On two cores a second worker costs more, in frames read twice, than it saves.
WORKERS = 1


@dataclass(frozen=True, slots=True)
class Way:
    """How a query is served: which roles share a process, and whether results are written in transactions."""

    packing: str = APART
    transactions: bool = True
    results: str = "frames"


PLAIN = Way()


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query whose topics are there, its services not yet started."""

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
        """Raise ServiceError where a service has ended."""
        self.supervisor.tend()

    def usage(self) -> dict[str, Usage]:
        """What each service, the broker, Redis and this process, which reads the results, have used so far."""
        cluster = self.prepared.cluster
        pids = {
            **self.supervisor.pids(),
            BROKER: cluster.broker.pid,
            REDIS: _redis_pid(cluster.redis.url),
            READER: os.getpid(),
        }
        found = {name: usage_of(pid) for name, pid in pids.items() if pid is not None}
        return {name: usage for name, usage in found.items() if usage is not None}


@contextmanager
def prepared(
    cluster: LocalCluster,
    name: str,
    sizes: PromiseSizes,
    folder: Path,
    text: str | None = None,
    way: Way = PLAIN,
) -> Iterator[PreparedQuery]:
    """Make the topics of a query called `name`, its input topic named after it.

    text: of its file; by default that of `self_join_text`
    """
    query_file = folder / f"{name}.yaml"
    query_file.write_text(self_join_text(sizes.window, sizes.slide, name=name) if text is None else text)
    topic = f"in.{name}"
    plan = ServePlan(
        load_query(query_file),
        query_file,
        WORKERS,
        packing=way.packing,
        settings={
            "credits_frames": str(sizes.credits_frames),
            "transactions": str(way.transactions),
            "results_format": way.results,
        },
        input_topics={"rows": topic},
        logs=folder / f"{name}-logs",
    )
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    try:
        make_topics(plan, cluster.servers)
        yield PreparedQuery(plan, cluster, log, LogPartition(topic, 0), way)
    finally:
        log.close()


@contextmanager
def measured(ready: PreparedQuery) -> Iterator[MeasuredServices]:
    """Start the services and end them with the block; a service that ends by itself is an error.

    Results are read from the first one on, so nothing waits for the services to be ready.
    """
    reader = ready.log.reader()
    tap = ResultsTap(reader, LogPartition(topic_name(ready.plan.query.name, Topic.RESULTS), 0))
    try:
        with serve(ready.plan, ready.cluster.servers, is_awaited=False) as served:
            yield MeasuredServices(ready, served.supervisor, tap)
    finally:
        reader.close()


def _redis_pid(url: str) -> int:
    """Redis' process, if it runs on this machine."""
    with redis.Redis.from_url(url) as client:
        about = cast("dict[str, int]", client.info("server"))
    return about["process_id"]
