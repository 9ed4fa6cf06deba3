"""The cache of the distributed scheme."""

from __future__ import annotations

from spojoin.ports.interfaces import Store
from spojoin.ports.memory import MemoryStore

#: Where there is no server.
MEMORY = "memory"
TIMEOUT_S = 5.0


def open_cache(where: str) -> Store:
    """A Redis by its URL, or a store of this process alone."""
    if where == MEMORY:
        return MemoryStore()
    # Whoever doesn't ask for a server doesn't wait for its client.
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415

    return RedisStore(where, timeout_s=TIMEOUT_S)
