"""Numbered pods that a lost node holds: Kubernetes starts no second pod of a name while the first may still run.

Here both may run: two instances of a worker emit the same records, which count once (rule P11). So a pod that is being
deleted is replaced as soon as its node won't end it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spojoin.roles.controller.cluster import LeavingPod

#: The controller's and Kubernetes' clocks may differ, and a node may be slow to report the end of a pod.
MARGIN_MS = 5_000
#: How often to look while every service reports.
LOOK_MS = 10_000


class LostPods:
    """Decides when to look for pods that are being deleted, and which of them to replace."""

    def __init__(self) -> None:
        self._look_at_ms = 0.0

    def is_due(self, expected: Iterable[str], heard: Collection[str], now_ms: float) -> bool:
        """Whether to look: at once if one of the `expected` services hasn't reported, otherwise every few seconds.

        heard: the services that have reported lately; empty if the store doesn't answer
        """
        is_missed = bool(heard) and any(service not in heard for service in expected)
        if not is_missed and now_ms < self._look_at_ms:
            return False
        self._look_at_ms = now_ms + LOOK_MS
        return True


def is_held(pod: LeavingPod, heard: Collection[str], wall_ms: int) -> bool:
    """Whether the pod's node won't end it.

    This is so if its grace period is over; or if its node's taint evicts it while its service is silent, which is how a
    lost node appears here. Without the store only the time counts.
    """
    if wall_ms > pod.due_ms + MARGIN_MS:
        return True
    return pod.is_evicted and bool(heard) and pod.service not in heard
