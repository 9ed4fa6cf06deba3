"""A check's verdict, for the services' metrics: the sink reports it to Prometheus."""

from __future__ import annotations

import time

from loadgen.check.verdict import Verdict
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import Completeness, key


def publish(verdict: Verdict, redis_url: str) -> None:
    """Put the verdict where the query's sink finds it. Raises StoreUnavailable."""
    found = Completeness(verdict.completeness, verdict.is_exact, time.time_ns() // 1_000_000)
    store = RedisStore(redis_url)
    try:
        store.put({key(verdict.query, "completeness"): found.fields()})
    finally:
        store.close()
