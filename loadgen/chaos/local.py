"""Faults for services that are processes of this machine, kept by a supervisor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence

import redis

from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import Supervisor


class LocalDriver:
    """Strikes services, and the cluster that they use; the supervisor restarts services."""

    def __init__(self, cluster: LocalCluster, supervisor: Supervisor) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._paused: dict[str, int] = {}
        self._broker = threading.Lock()

    def targets(self) -> Sequence[str]:
        """The services' names."""
        return list(self._supervisor.pids())

    def delete(self, target: str) -> None:
        """SIGTERM."""
        self._signal(target, signal.SIGTERM)

    def kill(self, target: str) -> None:
        """SIGKILL."""
        self._signal(target, signal.SIGKILL)

    def pause(self, target: str) -> None:
        """SIGSTOP."""
        self._paused[target] = self._signal(target, signal.SIGSTOP)

    def resume(self, target: str) -> None:
        """SIGCONT to the process that was paused, unless it was killed meanwhile."""
        pid = self._paused.pop(target)
        if self._supervisor.pids().get(target) == pid:
            os.kill(pid, signal.SIGCONT)

    def restart_broker(self) -> None:
        """SIGKILL, and a start with the same data."""
        with self._broker:
            self._cluster.broker.kill()
            self._cluster.broker.start()

    def flush_redis(self) -> None:
        """FLUSHALL."""
        flush(self._cluster.redis.url)

    def tend(self) -> None:
        """The supervisor restarts what has ended."""
        self._supervisor.tend()

    def _signal(self, target: str, number: signal.Signals) -> int:
        pid = self._supervisor.pids()[target]
        # A process that has ended still exists until the supervisor has collected it.
        os.kill(pid, number)
        return pid


def flush(url: str) -> None:
    """Empty a Redis."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
