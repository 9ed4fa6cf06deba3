"""spojoin: exact stream inequality joins, embedded in one process or as services over Kafka.

`spojoin.sql` joins tables and files by a statement, `spojoin.Join` streams that go on, both in this process;
`spojoin.connect` reads what services answer, `spojoin.spark` joins a history on Spark. The command `spojoin` joins
files, and runs the services.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spojoin.version import __version__

if TYPE_CHECKING:
    from spojoin.client.connect import connect
    from spojoin.embedded.join import Join
    from spojoin.embedded.sql import sql

__all__ = ["Join", "__version__", "connect", "sql"]
_ROOMS = ("errors", "spark")


def __getattr__(name: str) -> object:
    """What users call, imported when first asked for: services and help need none of what they load."""
    if name == "Join":
        from spojoin.embedded.join import Join  # noqa: PLC0415

        return Join
    if name == "connect":
        from spojoin.client.connect import connect  # noqa: PLC0415

        return connect
    if name == "sql":
        from spojoin.embedded.sql import sql  # noqa: PLC0415

        return sql
    if name in _ROOMS:
        return import_module(f"spojoin.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What users call, also before it is imported."""
    return sorted([*__all__, *_ROOMS])
