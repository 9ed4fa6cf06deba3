"""Ends what takes too long: one thread of a process looks at all evaluations, by the processor time of their threads.

Not by the clock, so that a busy machine refuses no row that a quiet one takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

#: Processor time that rows may take together before they are tried in smaller parts, and one row before it is refused.
SECONDS_MAX = 2.0
#: Characters of a statement that are planned in a second at the least, as they are anew for each batch of rows.
_PLANNED_PER_S = 10_000
LOOK_S = 0.1


@dataclass(slots=True)
class _Evaluation:
    """What a thread evaluates; its processor time when it was first looked at, as a look at each would cost more."""

    connection: duckdb.DuckDBPyConnection
    clock: int
    seconds: float
    began: float | None = None

    def look(self) -> None:
        now = time.clock_gettime(self.clock)
        if self.began is None:
            self.began = now
        elif now > self.began + self.seconds:
            self.connection.interrupt()


_running: dict[int, _Evaluation] = {}
_lock = threading.Lock()
_watcher: threading.Thread | None = None


@contextmanager
def watched(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[None]:
    """Interrupt the connection once this thread has computed for too long within. Raises duckdb.InterruptException."""
    seconds = SECONDS_MAX + len(sql) / _PLANNED_PER_S
    own = threading.get_ident()
    _running[own] = _Evaluation(connection, time.pthread_getcpuclockid(own), seconds)
    _start()
    try:
        yield
    finally:
        with _lock:
            del _running[own]


def _start() -> None:
    global _watcher  # noqa: PLW0603  (one thread for all evaluations of a process)
    if _watcher is None or not _watcher.is_alive():
        with _lock:
            _watcher = threading.Thread(target=_watch, name="spojoin-watch", daemon=True)
            _watcher.start()


def _watch() -> None:
    while True:
        time.sleep(LOOK_S)
        _look()


def _look() -> None:
    """Not within the thread's own loop, which would keep the last one looked at, and its connection, for good."""
    with _lock:
        for each in _running.copy().values():
            each.look()
