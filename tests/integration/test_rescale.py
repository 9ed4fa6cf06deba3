"""The worker count changes while data flows on the real broker and Redis: 1, then 3, 2 and 1, as columns or as rows.

New workers start before the worker count includes them, as the controller ensures. The first worker to go is killed
before the others know: frames in flight wait for it, and the remaining workers take over. The second is asked to end,
as by Kubernetes, and leaves when no frame waits for it. The ordered output has the same SHA-256 as a nested loop over
the inputs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.interfaces import LogPartition, SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import key
from spojoin.protocol.topology import Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.roles.controller.control_topic import ControlTopic
from tests.support import racks, readings
from tests.support.served import COUNTS, PATIENCE_S, SIZES, Output

pytestmark = pytest.mark.integration

WORKERS_MAX = 3
#: The factor by which a feed's pauses between portions lengthen while it trickles.
SLOWER = 12
#: The share of all rows by which a feed may be ahead of the answers.
LEAD = 0.15


class Tap(threading.Event):
    """Ends a feed when it is set. Between `slowly` and `freely` the feed trickles, and it waits for answers.

    So rows flow when a change of workers needs some, and don't run out before, even on a slow machine.

    portions: how many the feed has, with a pause after each; answered: the share of all rows that are answered
    """

    def __init__(self, portions: int, answered: Callable[[], float]) -> None:
        super().__init__()
        self._slower = 1
        self._portions, self._passed = portions, 0
        self._answered = answered

    def slowly(self) -> None:
        self._slower = SLOWER

    def freely(self) -> None:
        self._slower = 1

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._passed += 1
        while not super().wait(timeout * self._slower):
            if self._passed / self._portions <= self._answered() + LEAD:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Subject:
    """The served query, its stream, the columns of its results, its rows and its answers.

    portions: how many the rows come in; answered: how many tuples have answers; pace_s: the time between two portions
    """

    name: str
    text: str
    stream: str
    columns: Sequence[str]
    feed: Callable[[str, str, threading.Event, float], None]
    portions: int
    answered: int
    pace_s: float
    expected: Callable[[], str]


def counts() -> Subject:
    return Subject(
        "rescale",
        readings.QUERY,
        "readings",
        COUNTS,
        readings.feed,
        readings.TUPLES // readings.MESSAGE_ROWS,
        readings.TUPLES,
        0.06,
        lambda: readings.digest(readings.expected()),
    )


def columns() -> Subject:
    return Subject(
        "rescale-rows",
        racks.QUERY,
        "racks",
        racks.COLUMNS,
        racks.feed,
        racks.ROWS // racks.PORTION_ROWS,
        racks.numbered(),
        0.2,
        lambda: racks.digest(list(racks.expected())),
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """One query on the cluster: its services, the requested worker counts, and the results."""

    subject: Subject
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

    def rescale(self, workers: int, tended: Supervisor) -> None:
        """Ask for this number of workers and read until results under it are out."""
        self.ask(workers)
        self.until(lambda: self.has_come(workers), tended)

    def until(self, done: Callable[[], bool], tended: Supervisor) -> None:
        """Read results until `done`."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            tended.tend()
            self.output.read_on(0.2)
            assert time.monotonic() < deadline, self.account()

    def account(self) -> str:
        return f"{self.output.answered} of {self.subject.answered} answered; {self.head()}"

    def head(self) -> dict[str, str]:
        return self.store.get(key(self.subject.name, "head"))

    def has_come(self, workers: int) -> bool:
        """Whether results under this worker count are out."""
        head, result_position = self.head(), self.store.get(key(self.subject.name, "result_position"))
        known = head.get("workers") == str(workers) and "frame_id" in result_position
        return known and int(result_position["frame_id"]) > int(head["layout_frame"])

    def answered(self) -> float:
        """The share of all rows that are answered."""
        return self.output.answered / self.subject.answered

    def share(self, part: float) -> Callable[[], bool]:
        return lambda: self.answered() >= part


@contextmanager
def staged(subject: Subject, cluster: LocalCluster, folder: Path, grid_columns: int) -> Iterator[tuple[Stage, str]]:
    query_file = folder / "query.yaml"
    query_file.write_text(subject.text.replace("NAME", subject.name))
    query = load_query(query_file)
    topic = f"{subject.name}.{input_topic(subject.stream)}"
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    control = LogPartition(topic_name(subject.name, Topic.CONTROL), 0)
    log.create_topics({topic: 1, f"{topic}.dlq": 1, control.topic: 1})
    settings = {**SIZES, "workers": "1", "workers_max": str(WORKERS_MAX), "columns": str(grid_columns)}
    settings["input_topics"] = orjson.dumps({subject.stream: topic}).decode()
    deployment = Deployment(query, query_file, cluster.broker.bootstrap, cluster.redis.url, WORKERS_MAX, settings)
    services = {service.name: service for service in services_of(deployment)}
    patient = {**services["pojoin-1"].environment, "SPOJOIN_DRAIN_MS": "60000"}
    services["pojoin-1"] = replace(services["pojoin-1"], environment=patient)
    stage = Stage(
        subject,
        services,
        cluster,
        ControlTopic(log, control, SystemClock()),
        RedisStore(cluster.redis.url),
        Output(cluster.broker.bootstrap, query, subject.columns),
        folder / "logs",
    )
    try:
        yield stage, topic
    finally:
        stage.output.close()
        stage.control.close()
        stage.store.close()


@pytest.mark.parametrize(("make", "grid_columns"), [(counts, WORKERS_MAX), (columns, 1)])
def test_workers_come_and_go_while_data_flows(
    cluster: LocalCluster, tmp_path: Path, make: Callable[[], Subject], grid_columns: int
) -> None:
    subject = make()
    with staged(subject, cluster, tmp_path, grid_columns) as (stage, topic), ThreadPoolExecutor() as pool:
        tap = Tap(subject.portions, stage.answered)
        always = [name for name in stage.services if name not in ("pojoin-1", "pojoin-2")]
        with stage.running(*always) as all_along:
            feeding = pool.submit(subject.feed, cluster.broker.bootstrap, topic, tap, subject.pace_s)
            try:
                stage.until(stage.share(0.15), all_along)
                tap.slowly()
                with stage.running("pojoin-1", "pojoin-2") as added:
                    stage.rescale(3, all_along)
                    tap.freely()
                    lose(stage, all_along, added.pids()["pojoin-2"])
                    tap.slowly()
                    stage.rescale(2, all_along)
                    os.kill(added.pids()["pojoin-1"], signal.SIGTERM)
                    stage.rescale(1, all_along)
                    assert stage.output.answered < subject.answered
                    tap.freely()
                    stage.until(stage.share(1.0), all_along)
                    assert added._running["pojoin-1"].process.wait(PATIENCE_S) == 0
            finally:
                tap.set()
            feeding.result()
        rows = stage.output.rows
    found = readings.digest(iter(rows)) if subject.stream == "readings" else racks.digest(rows)
    assert found == subject.expected()


def lose(stage: Stage, tended: Supervisor, pid: int) -> None:
    """Kill a worker without warning while frames that wait for it are written."""
    os.kill(pid, signal.SIGKILL)
    last = int(stage.head()["frame_id"])
    stage.until(lambda: int(stage.head()["frame_id"]) > last + 3, tended)
