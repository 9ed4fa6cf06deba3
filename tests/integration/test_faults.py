"""All services on the real broker and Redis are killed one after the other while data flows.

SIGKILL ends every service at least once and the broker once, with its data kept; Redis is emptied twice. The ordered
output has the same SHA-256 as a nested loop over the inputs, for three packings, with standbys and without.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import Supervisor
from tests.support.readings import QUERY, TUPLES, digest, expected, feed
from tests.support.served import SIZES, Served, served

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def expected_digest() -> str:
    return digest(expected())


class Faults:
    """Kills every service once, the broker once, and empties Redis twice, some seconds apart."""

    def __init__(self, cluster: LocalCluster, supervisor: Supervisor, names: list[str]) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._names = names
        self.done: list[str] = []

    def run(self) -> None:
        for number, name in enumerate(self._names):
            time.sleep(1.5)
            os.kill(self._supervisor.pids()[name], signal.SIGKILL)
            self.done.append(name)
            if number in (1, len(self._names) - 2):
                self._empty_redis()
            if number == len(self._names) // 2:
                self._restart_broker()

    def _empty_redis(self) -> None:
        redis.Redis.from_url(self._cluster.redis.url).flushall()
        self.done.append("redis")

    def _restart_broker(self) -> None:
        self._cluster.broker.kill()
        self._cluster.broker.start()
        self.done.append("broker")


@pytest.mark.parametrize(
    ("packing", "workers", "transactions", "standbys"),
    [("apart", 3, False, False), ("together", 1, True, True), ("router+sink mutable+pojoin", 2, True, True)],
)
def test_every_part_may_die(
    own_cluster: LocalCluster,
    tmp_path: Path,
    expected_digest: str,
    packing: str,
    workers: int,
    transactions: bool,
    standbys: bool,
) -> None:
    name = f"faults-{packing.replace('+', '-').replace(' ', '.')}-{workers}"
    text, stop = QUERY.replace("NAME", name), threading.Event()
    settings = {**SIZES, "transactions": str(transactions)}
    with (
        served(
            own_cluster, tmp_path, text, workers, settings, restarts_max=20, packing=packing, standbys=standbys
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        faults = Faults(own_cluster, running.supervisor, list(running.services))
        try:
            feeding = pool.submit(feed, own_cluster.broker.bootstrap, running.topics["readings"], stop, 0.1)
            watch(running, faults, [feeding, pool.submit(faults.run)])
        finally:
            stop.set()
    assert {*running.services, "broker", "redis"} <= set(faults.done)
    assert faults.done.count("redis") == 2
    assert [row[0] for row in running.output.rows] == list(range(TUPLES))
    assert digest(iter(running.output.rows)) == expected_digest


def watch(running: Served, faults: Faults, background: list[Future[None]]) -> None:
    """Read results until all have come and all faults have happened; restart ended services."""

    def is_done() -> bool:
        for task in background:
            if task.done():
                task.result()
        return running.output.answered >= TUPLES and all(task.done() for task in background)

    running.until(is_done, lambda: f"{running.output.answered} of {TUPLES} answered; faults so far: {faults.done}")
