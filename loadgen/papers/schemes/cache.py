"""The cache of the distributed scheme."""

from __future__ import annotations

from spojoin.ports.interfaces import Store
from spojoin.ports.memory import MemoryStore

#: The option's value for no server.
MEMORY = "memory"
TIMEOUT_S = 5.0


def open_cache(where: str) -> Store:
    """A Redis by its URL, or a store of this process alone."""
    if where == MEMORY:
        return MemoryStore()
    # Only those who name a server wait for the import of its client.
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415

    return RedisStore(where, timeout_s=TIMEOUT_S)
