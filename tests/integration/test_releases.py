"""Releases on the real broker: no query file that a release gets ever ends the served query.

While rows flow, a release's processes are ended and started with other query files, like pods that an upgrade, a
rollback or another tool's apply replaces. Each row must be answered once, as by a nested loop of its generation's
query.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.net import LOOPBACK
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.query.load import load_query
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
    wait,
)
from tests.support.long import long_only
from tests.support.served import SIZES

pytestmark = [pytest.mark.integration, pytest.mark.alone]

FIRST, SECOND = "joins/first", "joins/second"


@dataclass
class Applied:
    """Rows flow, and a release's processes are restarted with a new query file."""

    stage: Stage
    packing: str
    feed: Feed
    results: Results
    rows: Order
    times: int = 0

    @contextmanager
    def release(self, text: str, owner: str, **given: str) -> Iterator[tuple[Supervisor, list[Service]]]:
        """Processes of a release with this query file."""
        self.times += 1
        path = self.stage.write(OLD, f"{self.times}.yaml")
        topics = {"input_topics": orjson.dumps({"readings": self.stage.topic}).decode()}
        broker, redis = self.stage.cluster.broker.bootstrap, self.stage.cluster.redis.url
        settings = {**SIZES, **topics, "owner": owner, **given}
        services = services_of(
            Deployment(load_query(path), path, broker, redis, 1, settings, joiners=1, packing=self.packing)
        )
        self.stage.write(text, f"{self.times}.yaml")
        with Supervisor(self.stage.cluster.children, self.stage.folder / f"{self.times}", 0) as supervisor:
            supervisor.start(services)
            yield supervisor, services

    def goes_on(self, supervisor: Supervisor) -> None:
        """Wait until new rows are answered; raises if a process ends meanwhile."""
        supervisor.wait_ready()
        wanted = self.feed.rows + NEW_WINDOW

        def is_reached() -> bool:
            return tended(supervisor) and sum(self.results.answered.values()) - sum(self.rows.silent) > wanted

        wait(self.results, self.rows, is_reached)


def told(service: Service, path: str = "/readyz") -> tuple[int, str]:
    """A service's HTTP status and answer."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{service.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def listens(service: Service) -> bool:
    """Whether a service listens; on a busy machine it may start after those that it waits for have ended."""
    with suppress(urllib.error.URLError):
        return bool(told(service))
    return False


def judging(services: list[Service]) -> Service:
    """The service with the router, which judges the given query; the others follow it."""
    (found,) = (each for each in services if each.name in (Role.ROUTER, TOGETHER))
    return found


def accepted(services: list[Service]) -> set[str]:
    """The metric's values for whether the given query was accepted."""
    lines = told(judging(services), "/metrics")[1].splitlines()
    return {line.rsplit(" ", 1)[1] for line in lines if line.startswith("spojoin_query_accepted{")}


@pytest.mark.parametrize("packing", [TOGETHER, long_only(APART)])
def test_nothing_that_is_applied_ends_the_query_that_is_served(
    cluster: LocalCluster, tmp_path: Path, packing: str
) -> None:
    stage = Stage(cluster, tmp_path, f"released-{packing}", "arrival")
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics({stage.topic: PARTITIONS, f"{stage.topic}.dlq": 1})
    feed, results = Feed(cluster.broker.bootstrap, stage.topic), Results(cluster.broker.bootstrap, stage.name)
    rows = Order(log, LogPartition(topic_name(stage.name, Topic.FRAMES, 2), 0))
    applied = Applied(stage, packing, feed, results, rows)
    with ExitStack() as stack:
        stack.callback(log.close)
        stack.callback(results.close)
        stack.callback(rows.close)
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(feed.stop.set)
        with applied.release(OLD, FIRST) as (supervisor, services):
            supervisor.wait_ready()
            feeding = pool.submit(feed.run)
            wait(results, rows, lambda: results.answered[1] > 2 * OLD_WINDOW)
            assert accepted(services) == {"1.0"}
        with applied.release(NEW, FIRST, replace="true") as (supervisor, services):
            wait(results, rows, lambda: tended(supervisor) and results.answered[2] > sum(rows.silent) + NEW_WINDOW)
            assert accepted(services) == {"1.0"}
        with applied.release(OLD, FIRST) as (supervisor, services):  # a rollback
            applied.goes_on(supervisor)
            assert {told(each)[0] for each in services} == {200}
            said = told(judging(services))[1]
            assert "caught up, with another query: " in said
            assert "generation 2: " in said
            assert "output was pairs, is count" in said
            assert "--set query.replace=true" in said
            assert accepted(services) == {"0.0"}
        with applied.release(NEW.replace("SELECT *", "SELECT ?"), FIRST) as (supervisor, services):  # a mistake
            applied.goes_on(supervisor)
            assert accepted(services) == {"0.0"}
        with applied.release(NEW, FIRST) as (supervisor, services):
            applied.goes_on(supervisor)
            with applied.release(NEW, SECOND, replace="true") as (strangers, theirs):
                for text in (NEW, OLD):
                    assert f"belongs to {FIRST} on this Kafka" in refused_up(cluster, stage.write(text, "up.yaml"))
                applied.goes_on(supervisor)
                wait(results, rows, lambda: tended(strangers) and all(map(listens, theirs)))
                for each in theirs:
                    status, said = told(each)
                    assert status == 503
                    assert f"belongs to {FIRST} on this Kafka, and this is {SECOND}" in said
                assert accepted(theirs) == {"0.0"}
            assert accepted(services) == {"1.0"}
            assert GenerationsTopic(log, stage.name).read().owner == FIRST
        with applied.release(NEW, SECOND, adopt=FIRST) as (supervisor, _):
            applied.goes_on(supervisor)
            feed.stop.set()
            feeding.result()
            wait(results, rows, lambda: tended(supervisor) and answered(results, rows) == feed.rows)
            assert GenerationsTopic(log, stage.name).read().owner == SECOND
    check(results, rows, feed.rows, "arrival")
