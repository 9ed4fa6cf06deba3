"""Three brokers with replication 3: each dies once while rows flow; the results equal a nested loop's, in order.

So they do in one process, and in a grid of workers with two logical ANDs and two partitions of results.

A plain writer and a plain reader with the services' client properties measure Kafka's own silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.cluster import LocalBrokers, local_brokers
from spojoin.local.redis import LocalRedis
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from tests.support.disasters import SIZES, disaster_text, expected, send_rows
from tests.support.served import PATIENCE_S, BrokersCluster, Served, served

pytestmark = [pytest.mark.integration, pytest.mark.alone]

#: Rows per step and the time between steps, for both sending and measuring.
ROWS, PACE_S = 4, 0.05
NAME, PROBE = "brokers", "brokers.probe"


class Feed:
    """Sends rows until stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.stop = threading.Event()
        self.rows = 0

    def run(self) -> None:
        def numbers() -> Iterator[int]:
            while not self.stop.wait(PACE_S):
                yield from range(self.rows, self.rows + ROWS)
                self.rows += ROWS

        send_rows(self._bootstrap, self._topic, numbers())


class Moments:
    """The times of arrivals, and the longest silence."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.longest_s = 0.0

    def came(self) -> None:
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now

    def begin(self) -> None:
        self.longest_s = 0.0


def probe(log: KafkaLog, stop: threading.Event, moments: Moments) -> None:
    """Pass single messages through Kafka alone; a client that gives up is replaced, as in services."""
    source = LogPartition(PROBE, 0)
    writer, reader = log.writer(), log.reader()
    reader.open(source, 0)
    while not stop.wait(PACE_S):
        writer.append(source, b"x")
        writer.serve()
        if reader.poll(100, 0):
            moments.came()
    writer.close()
    reader.close()


def all_in_sync(bootstrap: str) -> bool:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics.values()
    return all(len(each.isrs) == 3 for topic in topics for each in topic.partitions.values())


def wait_until(is_done: Callable[[], bool], running: Served) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        running.supervisor.tend()
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def three() -> Iterator[tuple[LocalBrokers, BrokersCluster]]:
    with Children() as children, LocalRedis(children) as redis, local_brokers(children) as brokers:
        yield brokers, BrokersCluster(children, brokers, redis)


@pytest.mark.parametrize(
    ("workers", "packing", "grid"),
    [(1, "together", {}), (4, "router+permutation", {"columns": "2", "logical_ands": "2", "sinks": "2"})],
    ids=["together", "grid"],
)
def test_each_of_three_brokers_may_die(
    tmp_path: Path, record_property: Callable[[str, object], None], workers: int, packing: str, grid: dict[str, str]
) -> None:
    settings = {**SIZES, **grid}
    with (
        three() as (brokers, cluster),
        ThreadPoolExecutor() as pool,
        served(cluster, tmp_path, disaster_text(NAME), workers, settings, restarts_max=0, packing=packing) as running,
    ):
        log = KafkaLog(KafkaConfig(brokers.bootstrap))
        log.create_topics({PROBE: 1})
        feed, stop = Feed(brokers.bootstrap, running.topics["readings"]), threading.Event()
        own, ours = Moments(), Moments()
        background = [pool.submit(feed.run), pool.submit(probe, log, stop, own)]
        results, before = running.output, 0

        def has_answered(rows: int) -> bool:
            nonlocal before
            results.read_on(0.02)
            if results.answered > before:
                ours.came()
            before = results.answered
            assert not any(task.done() for task in background)
            return before >= rows

        try:
            for number, broker in enumerate(brokers.brokers):
                running.until(lambda: has_answered(feed.rows - 10 * ROWS), lambda: f"{results.answered} answered")
                own.begin()
                ours.begin()
                broker.kill()
                wanted = feed.rows + 50 * ROWS
                running.until(partial(has_answered, wanted), lambda: f"{results.answered} answered")
                record_property(f"broker {number}", f"{ours.longest_s:.1f} s, Kafka alone {own.longest_s:.1f} s")
                print(f"broker {number}: silent for {ours.longest_s:.1f} s, Kafka alone {own.longest_s:.1f} s")
                revive(broker, brokers, running, has_answered)
        finally:
            feed.stop.set()
            stop.set()
        for task in background:
            task.result()
        background.clear()
        running.until(lambda: has_answered(feed.rows), lambda: f"{results.answered} of {feed.rows} answered")
        log.close()
    assert results.rows == expected(0, feed.rows)


def revive(broker: LocalBroker, brokers: LocalBrokers, running: Served, has_answered: Callable[[int], bool]) -> None:
    """Restart a broker and wait until it has caught up, since two of three replicas are required."""
    broker.launch()
    with ThreadPoolExecutor() as pool:
        back = pool.submit(
            lambda: (broker.wait_until_up(), wait_until(lambda: all_in_sync(brokers.bootstrap), running))
        )
        running.until(lambda: has_answered(0) and back.done(), lambda: "the broker isn't back")
        back.result()
