"""`spojoin status --check`: whether a query is well, in one sentence."""

from __future__ import annotations

import time
from pathlib import Path

from spojoin.errors import Retryable
from spojoin.ports.interfaces import Store
from spojoin.ports.redis_store import RedisStore
from spojoin.query.load import load_query
from spojoin.runtime.settings import load_settings
from spojoin.telemetry.expected import NOBODY
from spojoin.telemetry.status import QueryStatus, read_status
from spojoin.telemetry.status_table import is_silent
from spojoin.telemetry.wellness import Wellness, wellness_of

POLL_S = 0.5


def is_well(file: Path, redis: str, wait_s: float) -> bool:
    """Whether the query becomes well in time, by what its services report; the sentence is printed.

    Raises ConfigurationError; StoreUnavailable where Redis doesn't answer in time.
    """
    query, settings = load_query(file), load_settings(query_file=file, redis_url=redis)
    store = RedisStore(settings.store_url() or redis)
    deadline = time.monotonic() + wait_s
    try:
        while not (found := _look(store, query.name, deadline)).is_well and time.monotonic() < deadline:
            time.sleep(POLL_S)
    finally:
        store.close()
    print(f"{query.name}: {found.sentence}")
    return found.is_well


def _look(store: Store, name: str, deadline: float) -> Wellness:
    while True:
        try:
            found = read_status(store, time.time_ns() // 1_000_000)
            break
        except Retryable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)
    status = next((each for each in found if each.query == name), QueryStatus(name, [], NOBODY, {}))
    return wellness_of((row for row in status.services if not is_silent(row)), status.expected)
