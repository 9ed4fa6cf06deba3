"""A joiner of several predicates, or of none: a state machine for each of them, fed with the same records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spojoin.model import Query
from spojoin.protocol.machine import Action, Machine, ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.wire.records import Record


class Joiner(Machine):
    """Evaluates some of the query's predicates; each has its own partition of partials, and its own runs."""

    def __init__(self, query: Query, predicates: Iterable[int], result_position: ResultPosition) -> None:
        self._machines = [MutableMachine(query, predicate, result_position) for predicate in predicates]

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a frame of the log to the machine of each predicate."""
        for machine in self._machines:
            yield from machine.on_record(topic, partition, offset, record)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Tell every machine how far results are out."""
        return [trim for machine in self._machines for trim in machine.on_result_position(result_position)]

    def state_tuples(self) -> int:
        """Tuples held in memory, once for each predicate."""
        return sum(machine.state_tuples() for machine in self._machines)
