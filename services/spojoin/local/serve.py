"""One query served on this machine: its topics, its services, and their end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from spojoin.local.cluster import Servers, local_cluster
from spojoin.local.jars import Progress
from spojoin.local.services import Deployment, page_of, services_of
from spojoin.local.supervise import Notice, Service, Supervisor
from spojoin.model import Query
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.packing import APART
from spojoin.protocol.topic_config import TopicConfigs, TopicKind
from spojoin.protocol.topology import Topic
from spojoin.runtime.generations import check_generation
from spojoin.runtime.topics import Topics, create_inputs, create_kept

WORKERS = 2


@dataclass(frozen=True, slots=True)
class ServePlan:
    """What is served and how.

    joiners: the number of mutable joiners; None for one per predicate
    settings: further settings of all services, by name
    packing: which roles share a process; standbys: whether each process has a second instance
    input_topics: by stream, the topics other than in.<stream>; partitions: the number for new input topics
    logs: the folder for the logs, one per service; None for a temporary one
    restarts_max: how often one service may end by itself before that counts as failure
    topic_configs: the configuration of the topics that are made here
    without: names of services that are not started; has_page: whether the query's page is served as well
    """

    query: Query
    query_file: Path
    workers: int = WORKERS
    joiners: int | None = None
    packing: str = APART
    standbys: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    input_topics: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1
    logs: Path | None = None
    restarts_max: int = 0
    without: Collection[str] = ()
    has_page: bool = False
    topic_configs: TopicConfigs = field(default_factory=TopicConfigs)

    @property
    def topics(self) -> Topics:
        """The query's topics by name."""
        return Topics.for_query(self.query, self.workers, self.input_topics, sinks=int(self.settings.get("sinks", 1)))

    def deployment(self, servers: Servers) -> Deployment:
        """The query on these servers."""
        topics = {"input_topics": orjson.dumps(dict(self.input_topics)).decode()} if self.input_topics else {}
        return Deployment(
            self.query,
            self.query_file,
            servers.bootstrap,
            servers.redis_url,
            self.workers,
            {**self.settings, **topics},
            self.joiners,
            self.packing,
            self.standbys,
        )


@dataclass(frozen=True, slots=True)
class ServedQuery:
    """Running services, by name. Code that waits for something must call `supervisor.tend` meanwhile."""

    plan: ServePlan
    servers: Servers
    services: Mapping[str, Service]
    supervisor: Supervisor
    logs: Path

    @property
    def query(self) -> Query:
        return self.plan.query

    @property
    def about(self) -> str:
        """A sentence on where the query is served."""
        servers = self.servers
        return f"{self.query.name} is served: Kafka {servers.bootstrap}, Redis {servers.redis_url}, logs {self.logs}"


@contextmanager
def serve(
    plan: ServePlan,
    servers: Servers | None = None,
    notice: Notice = lambda _name, _change: None,
    progress: Progress = print,
    *,
    is_awaited: bool = True,
) -> Iterator[ServedQuery]:
    """Make the query's topics, start its services, wait until all are ready, and end them with the block.

    servers: Kafka and Redis that run already; None starts both here, and ends them with the block
    notice: called with every change of a service; progress: called with each step that takes long
    is_awaited: whether to wait until all services are ready

    Raises ConfigurationError, ServiceError, or Retryable if Kafka can't be reached.
    """
    with ExitStack() as stack:
        servers = servers or stack.enter_context(local_cluster(progress)).servers
        make_topics(plan, servers)
        logs = plan.logs or servers.children.scratch_folder("logs")
        supervisor = stack.enter_context(Supervisor(servers.children, logs, plan.restarts_max, notice))
        services = _services(plan, servers)
        supervisor.start(list(services.values()))
        if is_awaited:
            supervisor.wait_ready()
        yield ServedQuery(plan, servers, services, supervisor, logs)


def make_topics(plan: ServePlan, servers: Servers) -> None:
    """Make the query's inputs and the topics that outlive it.

    Services make the topics of the generation that they serve; made here, those of an ended generation would remain.
    Raises ConfigurationError if another query is served under the same name, or the name belongs to another.
    """
    topics = plan.topics
    log = KafkaLog(KafkaConfig(servers.bootstrap))
    try:
        log.create_topics({topics.name(Topic.GENERATIONS): 1}, plan.topic_configs.for_kind(TopicKind.INTERNAL))
        replaces = plan.deployment(servers).replaces
        adopt = plan.settings.get("adopt", "")
        check_generation(log, plan.query, replace=replaces, adopt=adopt, sinks=topics.sinks)
        create_kept(log, topics, plan.topic_configs)
        create_inputs(log, topics, plan.partitions, plan.topic_configs)
    finally:
        log.close()


def _services(plan: ServePlan, servers: Servers) -> dict[str, Service]:
    deployment = plan.deployment(servers)
    pages = [page_of(deployment)] if plan.has_page else []
    return {each.name: each for each in (*services_of(deployment), *pages) if each.name not in plan.without}
