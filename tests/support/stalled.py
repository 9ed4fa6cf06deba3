"""A broker that is stopped for a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spojoin.local.broker import LocalBroker


@contextmanager
def stalled(broker: LocalBroker) -> Iterator[None]:
    """Stop the running broker and always resume it, since a stopped process wouldn't end on request."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        while not _has_stopped(broker.pid):  # a thread on another core may still answer
            time.sleep(0.001)
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def _has_stopped(pid: int) -> bool:
    """Whether each thread of a process has stopped."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}
