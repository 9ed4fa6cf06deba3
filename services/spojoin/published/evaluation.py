"""How one process evaluates frames: what the product's own way and every published one have in common."""

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
        """A record that all machines have read."""
        return

    @abstractmethod
    def loads(self) -> list[WorkDone]:
        """What each worker has cost."""

    def mutable_part(self) -> dict[str, int] | None:
        """What the mutable part does besides the workers; None where there is no such part."""
        return None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The machines between router and sink.

    searching: those that keep the window; readers: which machines read a topic, in this order
    counters: what the search has done, all machines together; needs_hot_keys: whether a predictor must run beside them
    """

    searching: Sequence[WindowMachine]
    readers: Mapping[Topic, Sequence[Machine]]
    loads: Loads
    counters: Callable[[], dict[str, float]]
    needs_hot_keys: bool = False
