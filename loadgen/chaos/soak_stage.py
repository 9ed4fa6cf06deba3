"""The real parts of a soak: Kafka, Redis, and the services of one packing after the other over the same topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from loadgen.chaos.driver import LocalDriver, Seats
from loadgen.chaos.soak_plan import INTAKES, SoakLimits, SoakSetup
from loadgen.chaos.ties import STREAM, TiedJoin
from loadgen.chaos.watch import rss_bytes, topic_bytes
from spojoin.local.cluster import LocalCluster
from spojoin.local.serve import ServePlan, make_topics
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Supervisor
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.topic_config import TopicKind, topic_configs
from spojoin.protocol.topology import Role, Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.wire.codec import encode
from spojoin.wire.records import WorkerCount

RESTARTS_MAX = 100_000
#: Whole segments are deleted, so small ones show within minutes whether disk space is freed.
SEGMENT_BYTES = 4 << 20
#: The number of bytes of results that Kafka keeps.
RESULTS_BYTES = 16 << 20
#: Further bytes of the input: its last 30 s, and the rows of a minute in which the broker is down or recovers.
INPUT_BYTES = 8 << 20
#: Segments that a partition may have in addition: the open one, one that is partly needed, one that waits for its
#: deletion, and one that fills until then.
SEGMENTS = 4
WRITE_S = 30.0


@dataclass(frozen=True, slots=True)
class SoakServed:
    """The query, and what stays while it is served. folder: of the query file; logs: of the services."""

    join: TiedJoin
    limits: SoakLimits
    folder: Path
    logs: Path


@dataclass(slots=True)
class SoakStage:
    """The current services. version: of the newest request for workers; moves: how often the setup changed."""

    cluster: LocalCluster
    log: Log[bytes]
    served: SoakServed
    setup: SoakSetup
    workers: int = 1
    version: int = 0
    moves: int = 0
    _driver: LocalDriver | None = None

    @property
    def driver(self) -> LocalDriver:
        """The driver that strikes the current services and servers."""
        assert self._driver is not None, "`start` comes first"
        return self._driver

    @property
    def query_file(self) -> Path:
        """The query that is served."""
        return self.served.folder / "query.yaml"

    @property
    def limits(self) -> dict[str, int]:
        """The disk limits, in bytes, of topics that keep more than the protocol needs."""
        kept = {topic_name(self.served.join.name, Topic.RESULTS): RESULTS_BYTES, input_topic(STREAM): INPUT_BYTES}
        return {topic: kept_bytes + SEGMENTS * SEGMENT_BYTES for topic, kept_bytes in kept.items()}

    def prepare(self) -> None:
        """Make all topics, with small segments."""
        self.query_file.write_text(self.served.join.text)
        plan = ServePlan(
            load_query(self.query_file),
            self.query_file,
            self.served.limits.workers,
            settings=self._settings(self.setup),
        )
        configs = topic_configs({}, RESULTS_BYTES)
        results = {topic_name(self.served.join.name, Topic.RESULTS): self.served.limits.sinks}
        self.log.create_topics(results, configs.for_kind(TopicKind.RESULTS))
        make_topics(plan, self.cluster.servers)
        topics = replace(plan.topics, intakes=max(INTAKES))
        self.log.create_topics(topics.trimmed())
        names = [*topics.trimmed(), *topics.kept(), *topics.inputs]
        _set_segments(self.cluster.broker.bootstrap, names)

    def start(self, setup: SoakSetup) -> None:
        """Start the services of a setup, and meanwhile end the previous setup's services."""
        before, self.setup = self._driver, setup
        servers, query = self.cluster.servers, load_query(self.query_file)
        services = services_of(
            Deployment(
                query,
                self.query_file,
                servers.bootstrap,
                servers.redis_url,
                self.served.limits.workers,
                self._settings(setup),
                packing=setup.packing,
                standbys=setup.standbys,
            )
        )
        logs = self.served.logs / f"{self.moves:03}"
        self.moves += 1
        self._driver = LocalDriver(self.cluster, Supervisor(servers.children, logs, RESTARTS_MAX))
        self._driver.supervisor.start(services)
        if before is not None:
            before.supervisor.stop()

    def _settings(self, setup: SoakSetup) -> dict[str, str]:
        return {
            "workers": "1",
            "workers_max": str(self.served.limits.workers),
            "columns": str(min(setup.columns, self.served.limits.workers)),
            "logical_ands": str(setup.logical_ands),
            "intakes": str(setup.intakes),
            "sinks": str(self.served.limits.sinks),
            "results_bytes_max": str(RESULTS_BYTES),
            "frame_tuples": "256",
            "batch_tuples": "500",
        }

    def close(self) -> None:
        """End all services."""
        self.driver.supervisor.stop()

    def is_settled(self) -> bool:
        """Whether all services are ready, each with its speaker."""
        store = RedisStore(self.cluster.redis.url)
        try:
            is_settled = Seats(store, self.served.join.name).are_settled(self.driver.supervisor.pids())
        finally:
            store.close()
        return is_settled and self.driver.are_ready()

    def rescale(self, workers: int) -> None:
        """Request a number of workers by the control topic, as the controller does."""
        self.version, self.workers = self.version + 1, workers
        writer = self.log.writer()
        try:
            control = LogPartition(topic_name(self.served.join.name, Topic.CONTROL), 0)
            writer.append(control, encode(WorkerCount(self.version, workers)))
            writer.flush(WRITE_S)
        finally:
            writer.close()

    def trim_input(self, before: int) -> None:
        """Delete messages of the input before an offset; services don't manage the retention of users' rows."""
        self.log.trim(LogPartition(input_topic(STREAM), 0), before)

    def memory(self) -> dict[str, int]:
        """Memory in bytes of each service except idle workers, which keep memory from earlier work."""
        spare = tuple(f"{Role.POJOIN}-{worker}" for worker in range(self.workers, self.served.limits.workers))
        return {
            name: rss_bytes(pid) for name, pid in self.driver.supervisor.pids().items() if not name.startswith(spare)
        }

    def disk(self) -> Mapping[str, int]:
        """Bytes of each partition on the broker's disk."""
        return topic_bytes(self.cluster.broker.folder / "data")


def _set_segments(bootstrap: str, topics: list[str]) -> None:
    """Give topics small segments."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    change = ConfigEntry("segment.bytes", str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change]) for topic in topics]
    for future in admin.incremental_alter_configs(resources).values():
        future.result()
