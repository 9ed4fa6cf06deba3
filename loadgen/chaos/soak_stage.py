"""The real parts of a soak: Kafka, Redis, and the services of one packing after the other over the same topics."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from loadgen.chaos.seats import Seats, seated
from loadgen.chaos.soak_plan import SoakSetup
from loadgen.chaos.soak_watch import rss_bytes, topic_bytes
from loadgen.chaos.ties import STREAM, TiedJoin
from spojoin.local.cluster import LocalCluster
from spojoin.local.serve import ServePlan, make_topics
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Supervisor, is_ready
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.topic_config import TopicKind, topic_configs
from spojoin.protocol.topology import Role, Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.wire.codec import encode
from spojoin.wire.records import WorkerCount

RESTARTS_MAX = 100_000
#: Small segments show within minutes whether the disk is given back: whole segments are deleted.
SEGMENT_BYTES = 4 << 20
#: What is kept of the results.
RESULTS_BYTES = 16 << 20
#: What the input has besides: its last 30 s, and the rows of a minute in which the broker is down or recovers.
INPUT_BYTES = 8 << 20
#: Segments that a partition may have besides what is kept: the open one, one that is partly needed, one that waits for
#: its deletion, and one that fills until then.
SEGMENTS = 4
WRITE_S = 30.0


@dataclass(frozen=True, slots=True)
class SoakServed:
    """What is served, and how many workers there may be. folder: for the query's file; logs: of services."""

    join: TiedJoin
    workers_max: int
    folder: Path
    logs: Path


@dataclass(slots=True)
class SoakStage:
    """The services as they are now. version: of the newest request for workers; moves: how often setups changed."""

    cluster: LocalCluster
    log: Log[bytes]
    served: SoakServed
    setup: SoakSetup = field(default_factory=SoakSetup)
    workers: int = 1
    version: int = 0
    moves: int = 0
    _supervisor: Supervisor | None = None
    _ports: dict[str, int] = field(default_factory=dict)

    @property
    def query_file(self) -> Path:
        """The query that is served."""
        return self.served.folder / "query.yaml"

    @property
    def limits(self) -> dict[str, int]:
        """Topics that keep more than what the protocol needs, and what they may take of the disk."""
        kept = {topic_name(self.served.join.name, Topic.RESULTS): RESULTS_BYTES, input_topic(STREAM): INPUT_BYTES}
        return {topic: kept_bytes + SEGMENTS * SEGMENT_BYTES for topic, kept_bytes in kept.items()}

    def prepare(self) -> None:
        """Make all topics, with small segments."""
        self.query_file.write_text(self.served.join.text)
        plan = ServePlan(load_query(self.query_file), self.query_file, self.served.workers_max)
        configs = topic_configs({}, RESULTS_BYTES)
        self.log.create_topics({topic_name(self.served.join.name, Topic.RESULTS): 1}, configs.of(TopicKind.RESULTS))
        make_topics(plan, self.cluster.servers)
        self.log.create_topics(plan.topics.trimmed())
        names = [*plan.topics.trimmed(), *plan.topics.kept(), *plan.topics.inputs]
        _set_segments(self.cluster.broker.bootstrap, names)

    def start(self, setup: SoakSetup) -> None:
        """Start the services of a setup, and end those of the one before meanwhile."""
        before, self.setup = self._supervisor, setup
        settings = {
            "workers": "1",
            "workers_max": str(self.served.workers_max),
            "results_bytes_max": str(RESULTS_BYTES),
            "frame_tuples": "256",
            "batch_tuples": "500",
        }
        servers, query = self.cluster.servers, load_query(self.query_file)
        services = services_of(
            Deployment(
                query,
                self.query_file,
                servers.bootstrap,
                servers.redis_url,
                self.served.workers_max,
                settings,
                packing=setup.packing,
                standbys=setup.standbys,
            )
        )
        logs = self.served.logs / f"{self.moves:03}"
        self.moves += 1
        self._supervisor = Supervisor(servers.children, logs, RESTARTS_MAX)
        self._ports = {service.name: service.port for service in services}
        self._supervisor.start(services)
        if before is not None:
            before.stop()

    def close(self) -> None:
        """End all services."""
        self._running.stop()

    def pids(self) -> dict[str, int]:
        """The services' processes."""
        return self._running.pids()

    def tend(self) -> None:
        """Restart what has ended."""
        self._running.tend()

    def is_settled(self) -> bool:
        """Whether all services are ready, each in its place."""
        store = RedisStore(self.cluster.redis.url)
        try:
            is_settled = Seats(store, self.served.join.name).are_settled(self.pids())
        finally:
            store.close()
        return is_settled and all(is_ready(self._ports[process]) for process in seated(self._ports))

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process of the services, unless it is gone by now."""
        if pid in self.pids().values():
            os.kill(pid, number)

    def restart_broker(self) -> None:
        """SIGKILL, and a start with the same data."""
        self.cluster.broker.kill()
        self.cluster.broker.start()

    def restart_redis(self) -> None:
        """SIGKILL, and a start with nothing."""
        self.cluster.redis.kill()
        self.cluster.redis.start()

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
        """Delete messages of the input before an offset: to keep users' rows is not the services' business."""
        self.log.trim(LogPartition(input_topic(STREAM), 0), before)

    def memory(self) -> dict[str, int]:
        """Bytes that each service holds, but for workers that aren't asked: what one has ever done, it has loaded."""
        spare = tuple(f"{Role.POJOIN}-{worker}" for worker in range(self.workers, self.served.workers_max))
        return {name: rss_bytes(pid) for name, pid in self.pids().items() if not name.startswith(spare)}

    def disk(self) -> Mapping[str, int]:
        """Bytes of each partition on the broker's disk."""
        return topic_bytes(self.cluster.broker.folder / "data")

    @property
    def _running(self) -> Supervisor:
        assert self._supervisor is not None, "`start` comes first"
        return self._supervisor


def _set_segments(bootstrap: str, topics: list[str]) -> None:
    """Give topics small segments."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    change = ConfigEntry("segment.bytes", str(SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change]) for topic in topics]
    for future in admin.incremental_alter_configs(resources).values():
        future.result()
