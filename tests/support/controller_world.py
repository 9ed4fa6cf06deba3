"""A controller's surroundings: a cluster without pods, and the end of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from spojoin.ports.memory import ManualClock
from spojoin.roles.controller.cluster import ClusterUnavailable, Event, LeavingPod, ReplicaCounts, StatusCondition


class FakeCluster:
    """Workers that become ready at a test's request."""

    def __init__(self, replicas: int) -> None:
        self.replicas = self.ready = replicas
        self.events: list[Event] = []
        self.told: list[StatusCondition] = []
        self.held: list[LeavingPod] = []
        self.looks = 0
        self.failures = 0

    def workers(self) -> ReplicaCounts:
        if self.failures:
            self.failures -= 1
            raise ClusterUnavailable("broken on purpose")
        return ReplicaCounts(self.replicas, self.ready)

    def scale(self, replicas: int) -> None:
        self.replicas = replicas

    def leaving(self) -> list[LeavingPod]:
        self.looks += 1
        return list(self.held)

    def replace(self, pod: LeavingPod) -> None:
        self.held.remove(pod)

    def report(self, event: Event) -> None:
        self.events.append(event)

    def tell(self, conditions: Sequence[StatusCondition]) -> None:
        if self.failures:
            raise ClusterUnavailable("broken on purpose")
        self.told.extend(conditions)


class StopWhen(threading.Event):
    """A stop event that is set when `done` is true; time passes while it waits."""

    def __init__(self, done: Callable[[], bool], clock: ManualClock) -> None:
        super().__init__()
        self._done = done
        self._clock = clock
        self._rounds = 0

    def is_set(self) -> bool:
        self._rounds += 1
        assert self._rounds < 200, "never done"
        return self._done()

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.sleep(timeout or 0.0)
        return self.is_set()
