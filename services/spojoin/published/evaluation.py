"""How one process evaluates frames: the interface that the product's own way and every published one share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spojoin.protocol.machine import Machine, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.load import WorkDone
from spojoin.wire.records import Record


class Loads(ABC):
    """What an evaluation costs its workers."""

    def note(self, record: Record) -> None:
        """Count a record that all machines have read."""
        return

    @abstractmethod
    def loads(self) -> list[WorkDone]:
        """The cost of each worker so far."""

    def mutable_part(self) -> dict[str, int] | None:
        """What the mutable part adds to the workers' cost; None if there is no such part."""
        return None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The machines between router and sink.

    searching: the machines that hold the window; readers: the machines that read each topic, in order
    counters: the work of the search, summed over all machines; needs_hot_keys: whether a predictor must run as well
    apart: machines that may each have a thread of its own, since whoever reads their records takes them at any time;
        those with the most work first
    """

    searching: Sequence[WindowMachine]
    readers: Mapping[Topic, Sequence[Machine]]
    loads: Loads
    counters: Callable[[], dict[str, float]]
    needs_hot_keys: bool = False
    apart: Sequence[Machine] = ()
