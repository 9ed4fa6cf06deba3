"""Workers come and go while data flows, on the real broker and Redis: 1 of them, then 3, 2 and 1.

New workers start before the worker count includes them, as the controller ensures. The first that goes is killed before
anybody knows of it: frames under way wait for it, and those that are left stand in. The second is asked to end, as
Kubernetes does it, and leaves when no frame waits for it. The ordered output has the same SHA-256 as a nested loop over
the inputs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.clock import SystemClock
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import key
from spojoin.protocol.topology import Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.roles.controller.control_topic import ControlTopic
from tests.support.readings import QUERY, TUPLES, digest, expected, feed
from tests.support.served import PATIENCE_S, SIZES, Output

pytestmark = pytest.mark.integration

NAME = "rescale"
WORKERS_MAX = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """One query on the cluster: its services, the requested worker counts, and the results."""

    services: dict[str, Service]
    cluster: LocalCluster
    control: ControlTopic
    store: RedisStore
    output: Output
    logs: Path

    @contextmanager
    def running(self, *names: str) -> Iterator[Supervisor]:
        """Start these services and wait until they are ready."""
        with Supervisor(self.cluster.children, self.logs, restarts_max=20) as supervisor:
            supervisor.start([self.services[name] for name in names])
            supervisor.wait_ready()
            yield supervisor

    def ask(self, workers: int) -> None:
        self.control.refresh()
        self.control.request(workers)

    def until(self, done: Callable[[], bool], tended: Supervisor) -> None:
        """Read results until `done`."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            tended.tend()
            self.output.read_on(0.2)
            assert time.monotonic() < deadline, f"{len(self.output.rows)} of {TUPLES} results; {self.head()}"

    def head(self) -> dict[str, str]:
        return self.store.get(key(NAME, "head"))

    def has_come(self, workers: int) -> bool:
        """Whether results under this worker count are out."""
        head, result_position = self.head(), self.store.get(key(NAME, "result_position"))
        known = head.get("workers") == str(workers) and "frame_id" in result_position
        return known and int(result_position["frame_id"]) > int(head["layout_frame"])

    def share(self, part: float) -> Callable[[], bool]:
        return lambda: len(self.output.rows) >= part * TUPLES


@contextmanager
def staged(cluster: LocalCluster, folder: Path) -> Iterator[tuple[Stage, str]]:
    query_file = folder / "query.yaml"
    query_file.write_text(QUERY.replace("NAME", NAME))
    query = load_query(query_file)
    topic = f"{NAME}.{input_topic('readings')}"
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    control = LogPartition(topic_name(NAME, Topic.CONTROL), 0)
    log.create_topics({topic: 1, f"{topic}.dlq": 1, control.topic: 1})
    settings = {**SIZES, "workers": "1", "workers_max": str(WORKERS_MAX)}
    settings["input_topics"] = orjson.dumps({"readings": topic}).decode()
    deployment = Deployment(query, query_file, cluster.broker.bootstrap, cluster.redis.url, WORKERS_MAX, settings)
    services = {service.name: service for service in services_of(deployment)}
    patient = {**services["pojoin-1"].environment, "SPOJOIN_DRAIN_MS": "60000"}
    services["pojoin-1"] = replace(services["pojoin-1"], environment=patient)
    stage = Stage(
        services,
        cluster,
        ControlTopic(log, control, SystemClock()),
        RedisStore(cluster.redis.url),
        Output(cluster.broker.bootstrap, query),
        folder / "logs",
    )
    try:
        yield stage, topic
    finally:
        stage.output.close()
        stage.control.close()
        stage.store.close()


def test_workers_come_and_go_while_data_flows(cluster: LocalCluster, tmp_path: Path) -> None:
    stop = threading.Event()
    with staged(cluster, tmp_path) as (stage, topic), ThreadPoolExecutor() as pool:
        always = [name for name in stage.services if name not in ("pojoin-1", "pojoin-2")]
        with stage.running(*always) as all_along:
            feeding = pool.submit(feed, cluster.broker.bootstrap, topic, stop, 0.15)
            try:
                stage.until(stage.share(0.15), all_along)
                with stage.running("pojoin-1", "pojoin-2") as added:
                    stage.ask(3)
                    stage.until(lambda: stage.has_come(3), all_along)
                    stage.until(stage.share(0.4), all_along)
                    lose(stage, all_along, added.pids()["pojoin-2"])
                    stage.ask(2)
                    stage.until(lambda: stage.has_come(2), all_along)
                    stage.until(stage.share(0.7), all_along)
                    os.kill(added.pids()["pojoin-1"], signal.SIGTERM)
                    stage.ask(1)
                    stage.until(lambda: stage.has_come(1), all_along)
                    assert len(stage.output.rows) < TUPLES
                    stage.until(stage.share(1.0), all_along)
                    assert added._running["pojoin-1"].process.wait(PATIENCE_S) == 0
            finally:
                stop.set()
            feeding.result()
        rows = stage.output.rows
    assert [row[0] for row in rows] == list(range(TUPLES))
    assert digest(iter(rows)) == digest(expected())


def lose(stage: Stage, tended: Supervisor, pid: int) -> None:
    """Kill a worker without warning while frames that wait for it are written."""
    os.kill(pid, signal.SIGKILL)
    last = int(stage.head()["frame_id"])
    stage.until(lambda: int(stage.head()["frame_id"]) > last + 3, tended)
