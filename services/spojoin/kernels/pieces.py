"""Work in independent pieces, and who runs them.

Kernels release the interpreter lock, so pieces run at the same time where a caller passes threads. A state machine and
an index have none of their own: without a runner from outside their pieces run in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class TaskRunner(Protocol):
    """Runs tasks that don't depend on each other."""

    @property
    def threads(self) -> int:
        """How many tasks run at once, at most."""
        ...

    @property
    def reluctance(self) -> int:
        """How many times as much work must be there before it is shared, 1 where nothing else wants the cores."""
        ...

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all tasks, in their order; none runs any more when this returns or raises what one raised."""
        ...


class InTurn:
    """One task after another, in the caller's thread."""

    threads = 1
    reluctance = 1

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all tasks, in their order."""
        return [task() for task in tasks]


IN_TURN = InTurn()


def shares(n: int, pieces: int) -> list[slice]:
    """At most `pieces` slices of as equal a length as can be, which together are 0..n-1; one if n is 0."""
    pieces = max(1, min(n, pieces))
    return [slice(n * piece // pieces, n * (piece + 1) // pieces) for piece in range(pieces)]
