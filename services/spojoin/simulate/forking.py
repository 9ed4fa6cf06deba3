"""Processes for seeds, forked so that they find the kernels loaded."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager

from spojoin.query.extract import forget_extractors
from spojoin.runtime.memory import loaded_objects_spared
from spojoin.simulate.run import warm_up


@contextmanager
def forking() -> Iterator[multiprocessing.context.ForkContext]:
    """The context to fork in, all within the block.

    A process that closes a DuckDB connection which another opened crashes: it waits for threads that it doesn't have.
    So none is left in a cache, and what else there is, the garbage collector of the forked process leaves alone.
    """
    warm_up()
    forget_extractors()
    with loaded_objects_spared():
        yield multiprocessing.get_context("fork")
