"""A query served on this machine, as `spojoin up` does it, for load and for faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadgen.load.connection import Connection
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Notice, Supervisor
from spojoin.model import Query
from spojoin.query.load import load_query
from spojoin.runtime.service import create_topics
from spojoin.runtime.topics import Topics

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """What runs. Who waits for anything must call `supervisor.tend` meanwhile."""

    query: Query
    cluster: LocalCluster
    supervisor: Supervisor
    connection: Connection


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """What to serve and how; settings: further ones of the services by name; restarts_max: of each service."""

    query_file: Path
    workers: int = 2
    partitions: int = 1
    settings: Mapping[str, str] | None = None
    logs: Path | None = None
    restarts_max: int = 0


@contextmanager
def served(plan: LocalPlan, say: Say, notice: Notice = lambda _name, _change: None) -> Iterator[Serving]:
    """Start Kafka, Redis and all services, and end them with the block."""
    query = load_query(plan.query_file)
    with local_cluster(say) as cluster:
        connection = Connection(cluster.broker.bootstrap)
        _make_topics(connection, query, plan)
        logs = plan.logs or cluster.children.scratch_folder("logs")
        deployment = Deployment(
            query, plan.query_file, connection.bootstrap, cluster.redis.url, plan.workers, plan.settings or {}
        )
        with Supervisor(cluster.children, logs, plan.restarts_max, notice) as supervisor:
            supervisor.start(services_of(deployment))
            supervisor.wait_ready()
            say(f"{query.name} is served: Kafka {connection.bootstrap}, Redis {cluster.redis.url}, logs {logs}")
            yield Serving(query, cluster, supervisor, connection)


def _make_topics(connection: Connection, query: Query, plan: LocalPlan) -> None:
    log = connection.log()
    try:
        topics = Topics.of(query, plan.workers, {})
        create_topics(log, topics)
        log.create_topics(dict.fromkeys(topics.inputs, plan.partitions))
    finally:
        log.close()
