"""What the controller asks of the cluster that runs the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from spojoin.errors import Retryable


class ClusterUnavailable(Retryable):
    """The cluster does not answer, or refuses; the message says what to allow or to set."""


class ReplicaCounts(NamedTuple):
    """How many workers are requested, and how many are ready, those inside a process of several roles included."""

    replicas: int
    ready: int


class Event(NamedTuple):
    """Something that people should know: a reason in one word, and a sentence."""

    reason: str
    message: str
    is_warning: bool = False


class StatusCondition(NamedTuple):
    """Something that is so, isn't so, or of which nobody knows (None): why in one word, and a sentence."""

    kind: str
    is_true: bool | None
    reason: str
    message: str


class LeavingPod(NamedTuple):
    """A numbered pod that is being deleted, and the service in it.

    due_ms: when its time to end is over, ms since 1970
    is_evicted: whether it has to leave because of a taint of its node, as Kubernetes puts on a lost one
    """

    name: str
    uid: str
    service: str
    due_ms: int
    is_evicted: bool


class Cluster(Protocol):
    """Where the workers run. Every operation has a timeout and raises ClusterUnavailable."""

    def workers(self) -> ReplicaCounts:
        """The replicas requested, and those ready."""
        ...

    def scale(self, replicas: int) -> None:
        """Request this number of workers."""
        ...

    def leaving(self) -> list[LeavingPod]:
        """The pods of workers that are being deleted; none where the cluster does not say."""
        ...

    def replace(self, pod: LeavingPod) -> None:
        """Delete a pod without waiting for its node, so that another takes its number."""
        ...

    def report(self, event: Event) -> None:
        """Record an event at the workers' StatefulSet."""
        ...

    def tell(self, conditions: Sequence[StatusCondition]) -> None:
        """Put conditions into the status of the controller's Deployment."""
        ...
