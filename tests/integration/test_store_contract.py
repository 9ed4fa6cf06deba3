"""The contract of every store, tested on memory and on a real Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from spojoin.local.net import free_port
from spojoin.ports.interfaces import Store, StoreUnavailable, SystemClock
from spojoin.ports.memory import MemoryStore
from spojoin.ports.redis_store import RedisStore


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    memory = request.param == "memory"
    made = MemoryStore(SystemClock()) if memory else RedisStore(request.getfixturevalue("redis_url"), timeout_s=5)
    yield made
    made.close()


def test_fields_are_merged_and_come_back_as_text(store, unique):
    store.put({unique: {"a": 1, "b": "two"}})
    store.put({unique: {"b": 2.5, "c": ""}})
    assert store.get(unique) == {"a": "1", "b": "2.5", "c": ""}


def test_a_missing_key_is_empty(store, unique):
    assert store.get(unique) == {}
    store.put({unique: {}})
    assert store.get(unique) == {}
    assert store.scan(unique) == {}


def test_many_keys_at_once(store, unique):
    store.put({f"{unique}:{i}": {"i": i} for i in range(50)})
    assert store.scan(f"{unique}:") == {f"{unique}:{i}": {"i": str(i)} for i in sorted(range(50), key=str)}


def test_a_prefix_is_no_pattern(store, unique):
    store.put({f"{unique}[a]*:x": {"f": 1}, f"{unique}a:x": {"f": 2}, f"{unique}?": {"f": 3}})
    assert list(store.scan(f"{unique}[a]*")) == [f"{unique}[a]*:x"]
    assert list(store.scan(f"{unique}?")) == [f"{unique}?"]


def test_removing_fields_and_keys(store, unique):
    store.put({unique: {"a": 1, "b": 2, "c": 3}})
    store.remove(unique, "a", "nothing")
    assert store.get(unique) == {"b": "2", "c": "3"}
    store.remove(unique)
    assert store.get(unique) == {}
    store.remove(unique)
    store.remove(unique, "a")


def test_a_key_without_fields_is_gone(store, unique):
    store.put({unique: {"a": 1}})
    store.remove(unique, "a")
    assert store.scan(unique) == {}


def test_keys_expire_after_their_last_put(store, unique):
    store.put({unique: {"a": 1}}, ttl_s=0.2)
    store.put({f"{unique}-kept": {"a": 1}}, ttl_s=0.2)
    store.put({f"{unique}-kept": {"b": 1}})
    deadline = time.monotonic() + 30
    while store.get(unique):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert store.get(f"{unique}-kept") == {"a": "1", "b": "1"}


def test_clearing_loses_everything(store, unique):
    store.put({unique: {"a": 1}})
    store.clear()
    assert store.scan("") == {}


def test_a_missing_redis_is_reported():
    store = RedisStore(f"redis://127.0.0.1:{free_port()}/0")
    for action in (lambda: store.get("a"), lambda: store.put({"a": {"b": 1}}), lambda: store.scan("")):
        with pytest.raises(StoreUnavailable):
            action()
