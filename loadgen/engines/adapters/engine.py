"""What an engine is to the benchmark: it fills its window, then answers probes and says how many pairs match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from loadgen.engines.workloads import EngineWorkload


class PythonEngine(ABC):
    """An engine that runs in Python, made for one workload. A refusal is an exception with the engine's own words."""

    def __init__(self, workload: EngineWorkload) -> None:
        self.workload = workload

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the engine."""

    @abstractmethod
    def fill(self, first: int, last: int) -> None:
        """Store the rows [first, last), for which nothing is asked."""

    @abstractmethod
    def probe(self, first: int, last: int) -> int:
        """Store the rows [first, last), each after it has searched its window; how many matches all of them have."""


def pieces(first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """[first, last) cut into pieces of at most this number of rows."""
    for begin in range(first, last, size):
        yield begin, min(begin + size, last)
