"""A broker that stands still for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from spojoin.local.broker import LocalBroker


@contextmanager
def stalled(broker: LocalBroker) -> Iterator[None]:
    """Stop the broker that runs, and let it go on in any case: a stopped one wouldn't end when asked to."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)
