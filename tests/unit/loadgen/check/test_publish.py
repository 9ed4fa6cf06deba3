"""A check's verdict reaches the key that the sink reads."""

from __future__ import annotations

import pytest

from loadgen.check import verdict as module
from loadgen.check.verdict import Verdict, publish
from spojoin.local.net import free_port
from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.memory import ManualClock, MemoryStore
from spojoin.ports.shared_state import SharedState
from spojoin.telemetry.metrics import Metrics


def test_the_sink_reads_what_was_published(monkeypatch):
    clock = ManualClock()
    store = MemoryStore(clock)
    monkeypatch.setattr(module, "RedisStore", lambda _: store)
    shared = SharedState(store, "q", clock, Metrics().store_failures)
    assert shared.completeness() is None
    publish(Verdict("q", rows_expected=4, rows_right=3), "redis://there")
    assert shared.completeness()[:2] == (0.75, False)
    publish(Verdict("q", rows_expected=4, rows_right=4), "redis://there")
    found = shared.completeness()
    assert found[:2] == (1.0, True)
    assert found.checked_ms > 0


def test_a_missing_redis_is_reported():
    with pytest.raises(StoreUnavailable, match="Redis"):
        publish(Verdict("q"), f"redis://127.0.0.1:{free_port()}/0")
