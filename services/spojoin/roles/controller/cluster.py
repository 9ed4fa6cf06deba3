"""The controller's interface to the cluster that runs the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from spojoin.errors import Retryable


class ClusterUnavailable(Retryable):
    """The cluster doesn't answer, or refuses; the message says what to allow or to set."""


class ReplicaCounts(NamedTuple):
    """How many workers are requested, and how many are ready, including those in a process of several roles."""

    replicas: int
    ready: int


class Event(NamedTuple):
    """An event that people should know about: a reason in one word, and a sentence."""

    reason: str
    message: str
    is_warning: bool = False


class StatusCondition(NamedTuple):
    """A condition that is true, false or unknown (None), with the reason in one word, and a sentence."""

    kind: str
    is_true: bool | None
    reason: str
    message: str


class LeavingPod(NamedTuple):
    """A numbered pod that is being deleted, and the service in it.

    due_ms: when its grace period is over, ms since 1970
    is_evicted: whether a taint of its node evicts it, such as Kubernetes puts on a lost node
    """

    name: str
    uid: str
    service: str
    due_ms: int
    is_evicted: bool


class Cluster(Protocol):
    """Where the workers run. Every operation has a timeout and raises ClusterUnavailable."""

    def workers(self) -> ReplicaCounts:
        """The requested replicas, and the ready ones."""
        ...

    def scale(self, replicas: int) -> None:
        """Request this number of workers."""
        ...

    def leaving(self) -> list[LeavingPod]:
        """The pods of workers that are being deleted; empty if the cluster doesn't say."""
        ...

    def replace(self, pod: LeavingPod) -> None:
        """Delete a pod without waiting for its node, so that another takes its number."""
        ...

    def report(self, event: Event) -> None:
        """Record an event for the workers' StatefulSet."""
        ...

    def tell(self, conditions: Sequence[StatusCondition]) -> None:
        """Put conditions into the status of the controller's Deployment."""
        ...
