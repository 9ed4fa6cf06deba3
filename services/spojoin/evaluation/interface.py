"""The machines that evaluate frames, and the interface by which another distribution offers other ways to do so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spojoin.evaluation.options import LayoutAbout, MethodAbout
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import Guide
from spojoin.protocol.machine import Action, Machine, WindowMachine
from spojoin.protocol.packed_machine import Fellow
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Record, Result


@dataclass(frozen=True, slots=True)
class EvaluationMachines:
    """The machines between router and sink, in one process.

    searching: the machines that hold the window
    fellows: all machines, with the topics that they read, in the order in which a frame reaches them
    counters: the work of the search, summed over all machines; needs_hot_keys: whether a predictor must run as well
    apart: machines that may each have their own thread, since the readers of their records take them at any time; those
        with the most work first
    """

    searching: Sequence[WindowMachine]
    fellows: Sequence[Fellow]
    counters: Callable[[], dict[str, float]]
    needs_hot_keys: bool = False
    apart: Sequence[Machine] = ()


class RecordObserver:
    """Observes each record of an evaluation in one process; this one keeps nothing, at no cost."""

    def written(self, topic: Topic, record: Record) -> None:
        """Called when a machine has written a record."""

    def begun(self, record: Record) -> None:
        """Called before the machines read a record of the log."""

    def read(self, record: Record) -> None:
        """Called when all machines have read a record of the log, and the records that followed from it."""

    def answered(self, result: Result) -> None:
        """Called when results are out."""

    def search(self, actions: Iterator[Action]) -> Iterator[Action]:
        """The actions of a machine that searches."""
        return actions

    def measures(self, tuples: int, readers: Callable[[Topic], int]) -> dict[str, object]:
        """Figures by name; tuples: how many are in frames so far; readers: how many readers a topic has."""
        return {}


#: Makes the observer of a query's machines.
Observe = Callable[[Query, EvaluationMachines], RecordObserver]


class Evaluation(ABC):
    """Alternatives to the product's own way to evaluate a query.

    A distribution offers them by an entry point of the group `spojoin.evaluations` that names a subclass.

    A method searches the window in another way, and replaces all machines between router and sink in one process. A
    layout spreads the work over workers in another way; their processes replace PO-Join workers.
    """

    #: The methods and layouts that a query may name, in the order in which lists show them.
    methods: Mapping[str, MethodAbout]
    layouts: Mapping[str, LayoutAbout]

    @abstractmethod
    def check(self, query: Query, line: int | None = None) -> None:
        """Raise QueryError if the query can't be evaluated in this way; line: the line that chooses it."""

    @abstractmethod
    def check_served(self, query: Query, source: str) -> None:
        """Raise QueryError if services can't evaluate the query in this way; `source` names its origin."""

    @abstractmethod
    def explained(self, query: Query) -> str:
        """The text of EXPLAIN about it."""

    @abstractmethod
    def machines(self, query: Query, workers: int) -> EvaluationMachines:
        """All machines of a query in one process."""

    @abstractmethod
    def worker(self, query: Query) -> Callable[..., WindowMachine]:
        """The function that makes the machine of a worker's process, with the arguments of `PoJoinMachine`."""

    @abstractmethod
    def guide(self, query: Query) -> Guide:
        """The object that determines the guidance that the router adds to frames for the workers."""

    @abstractmethod
    def observer(self, query: Query, machines: EvaluationMachines) -> RecordObserver:
        """The observer that measures an evaluation, also the product's own."""


def summed(counters: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The counters of several machines, added up by name."""
    found: dict[str, float] = {}
    for each in counters:
        for name, value in each.items():
            found[name] = found.get(name, 0) + value
    return found
