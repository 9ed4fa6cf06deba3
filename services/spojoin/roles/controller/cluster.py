"""What the controller asks of the cluster that runs the workers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from spojoin.errors import Retryable


class ClusterUnavailable(Retryable):
    """The cluster does not answer, or refuses; the message says what to allow or to set."""


class ReplicaCounts(NamedTuple):
    """The workers' StatefulSet: how many replicas are requested, and how many are ready."""

    replicas: int
    ready: int


class Event(NamedTuple):
    """Something that people should know: a reason in one word, and a sentence."""

    reason: str
    message: str
    is_warning: bool = False


class Cluster(Protocol):
    """Where the workers run. Every operation has a timeout and raises ClusterUnavailable."""

    def workers(self) -> ReplicaCounts:
        """The replicas requested, and those ready."""
        ...

    def scale(self, replicas: int) -> None:
        """Request this number of workers."""
        ...

    def report(self, event: Event) -> None:
        """Record an event at the workers' StatefulSet."""
        ...
