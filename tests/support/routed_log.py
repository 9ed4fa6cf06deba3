"""The records of a router, and of the machines that make batches of its frames; nothing is ever trimmed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from spojoin.model import Query
from spojoin.protocol.machine import START, Action, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import Frame, Record


class RoutedLog:
    """A router that has claimed the log, and all records so far by topic."""

    def __init__(self, query: Query, config: RouterConfig) -> None:
        self.records: dict[Topic, list[Record]] = defaultdict(list)
        self.router = RouterMachine(query, START, config)
        self.router.on_inputs([(0, 0)])
        joiners = [MutableMachine(query, predicate, START) for predicate in range(len(query.predicates))]
        self._behind = [*joiners, PermutationMachine(query, START)]
        self.take(self.router.on_caught_up())
        self.take(self.router.on_chosen())
        self.take(self.router.on_record(Topic.FRAMES, 0, 0, self.records[Topic.FRAMES][0]))

    def take(self, actions: Iterable[Action]) -> None:
        """Note what is emitted, and what follows from it."""
        for action in actions:
            assert isinstance(action, Emit)
            self.records[action.topic].append(action.record)
            if action.topic in (Topic.FRAMES, Topic.RUNS):
                for machine in self._behind:
                    self.take(machine.on_record(action.topic, 0, 0, action.record))

    @property
    def frames(self) -> list[Frame]:
        """The frames so far."""
        return [record for record in self.records[Topic.FRAMES] if isinstance(record, Frame)]
