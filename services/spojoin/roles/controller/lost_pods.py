"""Pods with a number that a lost node holds: Kubernetes starts no second one of a name while the first may still run.

Here it may: whatever two instances of a worker say is the same, and counts once (rule P11). So a pod that
is being deleted is replaced as soon as nobody will end it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spojoin.roles.controller.cluster import LeavingPod

#: Clocks of the controller and of Kubernetes may differ, and a node may be slow to report the end of a pod.
MARGIN_MS = 5_000
#: How often to look while every service reports.
LOOK_MS = 10_000


class LostPods:
    """Says when to look for pods that are being deleted, and which of them to replace."""

    def __init__(self) -> None:
        self._look_at_ms = 0.0

    def is_due(self, expected: Iterable[str], heard: Collection[str], now_ms: float) -> bool:
        """Whether to look: now where the store misses one of the `expected` services, else every few seconds.

        heard: the services that have reported lately; none where the store does not answer
        """
        is_missed = bool(heard) and any(service not in heard for service in expected)
        if not is_missed and now_ms < self._look_at_ms:
            return False
        self._look_at_ms = now_ms + LOOK_MS
        return True


def is_held(pod: LeavingPod, heard: Collection[str], wall_ms: int) -> bool:
    """Whether nobody will end this pod.

    Its time to end is over; or its node's taint drives it out while its service is silent, which is what a lost node
    looks like from here. Without the store only the time counts.
    """
    if wall_ms > pod.due_ms + MARGIN_MS:
        return True
    return pod.is_evicted and bool(heard) and pod.service not in heard
