"""spojoin: exact stream inequality joins, embedded in one process or as services over Kafka.

`spojoin.Join` runs a query in this process; the command `spojoin` does that for files, and runs the services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spojoin.version import __version__

if TYPE_CHECKING:
    from spojoin.embedded.library import Join

__all__ = ["Join", "__version__"]


def __getattr__(name: str) -> object:
    """`Join`, imported when it is first asked for: services and help need none of what it loads."""
    if name == "Join":
        from spojoin.embedded.library import Join  # noqa: PLC0415

        return Join
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
