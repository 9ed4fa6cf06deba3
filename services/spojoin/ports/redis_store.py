"""The store port over Redis, with one hash per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import redis

from spojoin.ports.interfaces import Fields, StoreUnavailable

#: a store on the same machine answers in 40 us; one that takes this long counts as away
TIMEOUT_S = 0.25
SCAN_COUNT = 500

T = TypeVar("T")


class RedisStore:
    """A Redis or Valkey server, by its URL (redis:// or rediss://). Connects at the first use."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            decode_responses=True,
            retry=None,
            retry_on_timeout=False,
            # otherwise the client introduces itself with a command that its user has no right to
            driver_info=None,
        )

    def put(self, entries: Mapping[str, Fields], ttl_s: float | None = None) -> None:
        """Set fields of keys in one round trip, leaving other fields alone; a key expires after `ttl_s`."""
        _attempt(lambda: self._put(entries, ttl_s))

    def get(self, key: str) -> dict[str, str]:
        """All fields of a key; empty if there is no such key."""
        return _attempt(lambda: cast("dict[str, str]", self._client.hgetall(key)))

    def scan(self, prefix: str) -> dict[str, dict[str, str]]:
        """All keys that start with `prefix`, in order, with their fields."""
        return _attempt(lambda: self._scan(prefix))

    def remove(self, key: str, *fields: str) -> None:
        """Remove fields of a key, or the whole key if none are named."""
        _attempt(lambda: self._client.hdel(key, *fields) if fields else self._client.delete(key))

    def clear(self) -> None:
        """Lose everything, for tests."""
        _attempt(self._client.flushall)

    def close(self) -> None:
        self._client.close()

    def _put(self, entries: Mapping[str, Fields], ttl_s: float | None) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for key, fields in entries.items():
                if fields:
                    pipeline.hset(key, mapping={name: str(value) for name, value in fields.items()})
                    pipeline.persist(key) if ttl_s is None else pipeline.pexpire(key, int(1000 * ttl_s))
            pipeline.execute()

    def _scan(self, prefix: str) -> dict[str, dict[str, str]]:
        keys = sorted(set(self._client.scan_iter(match=_literal(prefix) + "*", count=SCAN_COUNT)))
        with self._client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hgetall(key)
            found = dict(zip(keys, pipeline.execute(), strict=True))
        return {key: fields for key, fields in found.items() if fields}


def _literal(text: str) -> str:
    """`text` as a pattern that matches only itself."""
    return "".join("\\" + char if char in "*?[]^\\" else char for char in text)


def _attempt(action: Callable[[], T]) -> T:
    try:
        return action()
    except redis.RedisError as error:
        raise StoreUnavailable(f"Redis does not answer: {error}") from error
