"""A service's memory: what the collector needn't look at, and what goes back to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

#: Of glibc's mallopt.
_M_ARENA_MAX = -8
#: Arenas of the C heap. By default it has eight a core, and each thread of the Kafka client keeps what it once took.
ARENAS_MAX = 2


@contextmanager
def loaded_objects_spared() -> Iterator[None]:
    """Leave the objects that are alive now out of the garbage collector's rounds within the block.

    A full round looks through everything that is tracked. Modules and their types are some hundred thousand objects
    that live as long as the process, and records come in by the thousand, which sets off one round after another.
    Garbage is collected first: what is spared is not freed, unless its last reference goes.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def limit_arenas() -> None:
    """Let threads share a few arenas of the C heap, where it is glibc's; call it before threads start."""
    _call("mallopt", _M_ARENA_MAX, ARENAS_MAX)


def give_back() -> None:
    """Give back to the system what was used once, as by a replay, and is free now."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    _call("malloc_trim", 0)


def _call(name: str, *given: int) -> None:
    """Call a function of glibc; other C libraries have a heap of their own, without it."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*given)
