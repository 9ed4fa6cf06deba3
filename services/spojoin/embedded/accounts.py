"""What an engine's layout costs: kept record by record for reports, and not at all where nobody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spojoin.embedded.frame_times import FrameTimes
from spojoin.model import Query
from spojoin.protocol.machine import Action
from spojoin.protocol.topology import Topic
from spojoin.published.evaluation import Loads
from spojoin.published.layouts.load import measures
from spojoin.published.layouts.traffic import Traffic
from spojoin.wire.records import Frame, Record, Result


class NoAccounts:
    """Keeps nothing: a small frame's accounts cost as much as a tenth of its results."""

    def written(self, topic: Topic, record: Record) -> None:
        """A machine has written a record."""

    def begun(self, record: Record) -> None:
        """The machines begin to read a record."""

    def read(self, record: Record) -> None:
        """All machines have read a record."""

    def answered(self, result: Result) -> None:
        """Results are out."""

    def search(self, actions: Iterator[Action]) -> Iterator[Action]:
        """The actions of a machine that searches."""
        return actions

    def measures(self, tuples: int, readers: Callable[[Topic], int]) -> dict[str, object]:
        """The figures, with `tuples` in frames so far and so many readers of a topic. Raises ValueError: none here."""
        raise ValueError("this engine keeps no accounts; make it with accounts=True")


class Accounts(NoAccounts):
    """Follows the records of one query's evaluation."""

    def __init__(self, query: Query, loads: Loads) -> None:
        self.frame_times = FrameTimes()
        self._query = query
        self._loads = loads
        self._traffic = Traffic(query)

    def written(self, topic: Topic, record: Record) -> None:
        """Count what passes to another machine."""
        self._traffic.note(topic, record)

    def begun(self, record: Record) -> None:
        """Time a frame from here on."""
        if isinstance(record, Frame):
            self.frame_times.begin(record.frame_id)

    def read(self, record: Record) -> None:
        """Count what it was to the workers."""
        self._loads.note(record)

    def answered(self, result: Result) -> None:
        """Time a frame up to here."""
        self.frame_times.end(result.frame_id, result.end - result.begin, is_last=result.is_last)

    def search(self, actions: Iterator[Action]) -> Iterator[Action]:
        """Time a worker's actions."""
        return self.frame_times.worker(actions)

    def measures(self, tuples: int, readers: Callable[[Topic], int]) -> dict[str, object]:
        """Latency a frame, the share of tuples that are answered, the load of each worker, and traffic by topic."""
        loads, mutable = self._loads.loads(), self._loads.mutable_part()
        return {
            "name": self._query.layout.name,
            "workers": len(loads),
            "completeness": self.frame_times.answered / tuples if tuples else 1.0,
            **self.frame_times.figures(),
            **measures(loads),
            **({"mutable": mutable} if mutable else {}),
            "topics": {
                topic.value: {**passed, "readers": readers(topic)} for topic, passed in self._traffic.figures().items()
            },
        }
