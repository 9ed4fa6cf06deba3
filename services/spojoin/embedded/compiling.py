"""Who is told when a kernel begins to be compiled; without loading the compiler before an engine does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

_told: list[Callable[[], object]] = []


@contextmanager
def compiling_shown(show: Callable[[], object]) -> Iterator[None]:
    """Within the block `show` is called whenever an engine's kernel begins to be compiled."""
    _told.append(show)
    try:
        yield
    finally:
        _told.remove(show)


@cache
def tell_of_compiling() -> None:
    """Tell from now on; loads the compiler."""
    from numba.core.event import Event, Listener, register  # noqa: PLC0415  (half a second, which engines take anyway)

    class Told(Listener):
        def on_start(self, event: Event) -> None:
            for show in _told:
                show()

        def on_end(self, event: Event) -> None:
            """The figures of the next batch take its place."""

    register("numba:compile", Told())  # type: ignore[no-untyped-call]
