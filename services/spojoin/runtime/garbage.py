"""What a service has loaded, kept out of the garbage collector's rounds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
