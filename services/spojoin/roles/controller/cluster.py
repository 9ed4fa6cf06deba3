"""What the controller asks of the cluster that runs the workers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from spojoin.errors import Retryable


class ClusterUnavailable(Retryable):
    """The cluster does not answer, or refuses; the sentence says what to allow or to set."""


class ReplicaCounts(NamedTuple):
    """The workers' StatefulSet: how many are asked for, and how many are ready."""

    replicas: int
    ready: int


class Event(NamedTuple):
    """Something that people should know: a reason in one word, and a sentence."""

    reason: str
    message: str
    is_warning: bool = False


class Cluster(Protocol):
    """The workers' place. Every operation has a timeout and raises ClusterUnavailable."""

    def workers(self) -> ReplicaCounts:
        """How things stand."""
        ...

    def scale(self, replicas: int) -> None:
        """Ask for so many workers."""
        ...

    def tell(self, event: Event) -> None:
        """Record an event at the workers' StatefulSet."""
        ...
