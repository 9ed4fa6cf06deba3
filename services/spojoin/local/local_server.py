"""What Kafka and Redis on this machine have in common: one child process, which may be killed and started again."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from spojoin.local.children import Children


class LocalServer(ABC):
    """A server that runs within a `with` block, as one of `children`."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start on the same port as ever, and return when the server answers."""

    def kill(self) -> None:
        """Kill at once, as a crash would; `start` brings the server back with what it keeps on disk."""
        self._end(is_hard=True)

    def close(self) -> None:
        """Stop."""
        self._end(is_hard=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, *, is_hard: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._children.stop(process, is_hard=is_hard)
