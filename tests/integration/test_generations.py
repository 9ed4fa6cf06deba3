"""A query changes while rows flow from several partitions on the real broker; services die at every stage.

One of the generations must answer each row once. The old one's results equal a nested loop of the old query over the
rows in its order; the new one's equal a nested loop of the new query over the order in its log, including rows that it
read again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import Supervisor
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.generations import GenerationsTopic
from tests.support.changing import (
    NEW,
    NEW_WINDOW,
    OLD,
    OLD_WINDOW,
    PARTITIONS,
    Feed,
    Order,
    Results,
    Stage,
    answered,
    check,
    refused_up,
    tended,
    topics_of,
    wait,
)
from tests.support.long import long_only

pytestmark = [pytest.mark.integration, pytest.mark.alone]


@dataclass(slots=True)
class Killer:
    """Kills services of both generations: two at each stage of the takeover and some in between."""

    supervisors: list[Supervisor]
    random: random.Random
    done: set[str] = field(default_factory=set)

    def at(self, stage: str) -> None:
        if stage not in self.done:
            self.done.add(stage)
            self._kill("router")
            self._kill(self.random.choice(["sink", "mutable-0", "logical-and", "permutation", "pojoin-1"]))

    def sometimes(self) -> None:
        if self.random.random() < 0.02:
            self._kill(self.random.choice(["router", "sink", "mutable-1", "pojoin-0"]))

    def _kill(self, name: str) -> None:
        pids = [supervisor.pids()[name] for supervisor in self.supervisors if name in supervisor.pids()]
        if pids:
            try:
                os.kill(self.random.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                return  # the service ended by itself


def stage_of(log: KafkaLog, name: str, results: Results) -> str:
    found = GenerationsTopic(log, name).read()
    if found.next_number == 2:
        return "before the announcement"
    if found.current_number == 1:
        return "closing"
    return "backfill" if results.answered[2] == 0 else "after"


@pytest.mark.parametrize("order", ["arrival", long_only("event_time")])
def test_a_changed_query_takes_over_while_rows_flow(cluster: LocalCluster, tmp_path: Path, order: str) -> None:
    stage = Stage(cluster, tmp_path, f"changed-{order}", order)
    old, new = stage.write(OLD, "old.yaml"), stage.write(NEW, "new.yaml")
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics({stage.topic: PARTITIONS, f"{stage.topic}.dlq": 1})
    feed, results = Feed(cluster.broker.bootstrap, stage.topic), Results(cluster.broker.bootstrap, stage.name)
    rows = Order(log, LogPartition(topic_name(stage.name, Topic.FRAMES, 2), 0))
    with ExitStack() as stack:
        stack.callback(log.close)
        stack.callback(results.close)
        stack.callback(rows.close)
        before = stack.enter_context(Supervisor(cluster.children, tmp_path / "old", restarts_max=0))
        after = stack.enter_context(Supervisor(cluster.children, tmp_path / "new", restarts_max=50))
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(feed.stop.set)
        before.start(stage.services(old))
        before.wait_ready()
        feeding = pool.submit(feed.run)
        wait(results, rows, lambda: results.answered[1] > 2 * OLD_WINDOW)
        after.start(stage.services(new, replace="true"))
        killer = Killer([before, after], random.Random(order))

        def disturbed() -> bool:
            after.tend()
            killer.at(stage_of(log, stage.name, results))
            killer.sometimes()
            return len(killer.done) == 4

        wait(results, rows, disturbed)
        wait(results, rows, lambda: tended(after) and results.answered[2] > sum(rows.silent) + NEW_WINDOW)
        feed.stop.set()
        feeding.result()
        wait(results, rows, lambda: tended(after) and answered(results, rows) == feed.rows)
        wait(results, rows, lambda: tended(after) and not topics_of(log, stage.name, 1))
        said = refused_up(cluster, old)
        assert "generation 2: type of readings.cooling was double, is long" in said
        assert not topics_of(log, stage.name, 1), "whoever is refused makes nothing"
    check(results, rows, feed.rows, order)


def test_without_replace_a_changed_query_is_refused_with_what_changed(cluster: LocalCluster, tmp_path: Path) -> None:
    stage = Stage(cluster, tmp_path, "refused", "arrival")
    old, new = stage.write(OLD, "old.yaml"), stage.write(NEW, "new.yaml")
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics({stage.topic: 1, f"{stage.topic}.dlq": 1})
    with Supervisor(cluster.children, tmp_path / "logs", restarts_max=0) as supervisor:
        supervisor.start(stage.services(old))
        supervisor.wait_ready()
        (router,) = (service for service in stage.services(new) if service.name == "router")
        ended = subprocess.run(
            router.command,
            env={**os.environ, **router.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 2, ended.stderr
        assert_names_the_change(ended.stderr)
        assert_names_the_change(refused_up(cluster, new))
        supervisor.tend()
    log.close()


def assert_names_the_change(said: str) -> None:
    sentence = " ".join(said.split())
    for part in ("output was count, is pairs", "type of readings.cooling was long, is double", "spojoin up --replace"):
        assert part in sentence
