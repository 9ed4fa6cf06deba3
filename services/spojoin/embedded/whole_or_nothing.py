"""The context manager of everything that is written whole or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class WholeOrNothing(ABC):
    """At the end of its block it is completed; where the block ends with an error, it is abandoned."""

    @abstractmethod
    def close(self) -> None:
        """Write what is held back, and end."""

    @abstractmethod
    def abandon(self, error: BaseException) -> None:
        """End as it is, without what would make it look whole; `error` is why."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon(error)
