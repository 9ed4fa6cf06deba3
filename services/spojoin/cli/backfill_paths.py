"""Where a backfill reads and writes, and what is wrong with that before Spark starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spojoin.embedded.run_files import table_files
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.spark.files import exists_already
from spojoin.spark.session import is_local
from spojoin.suggest import listed, unknown

if TYPE_CHECKING:
    from spojoin.cli.backfill_options import BackfillOptions

#: A path of another file system, or a pattern that Spark resolves.
_NOT_PLAIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")


def paths_of(query: Query, options: BackfillOptions) -> dict[str, str]:
    """The path of each input, by its name. Raises ConfigurationError where one is missing, unknown or named twice."""
    names = [stream.name for stream in query.inputs]
    flowing = [stream.name for stream in query.inputs if stream.table is None]
    found: dict[str, str] = {}
    for text in options.sources:
        name, path = _named(text, names, flowing)
        if name in found:
            raise ConfigurationError(f"--from {text}: {name!r} has a path already, {found[name]}")
        found[name] = path
    found = {**{name: str(path) for name, path in table_files(query, options.query.parent).items()}, **found}
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigurationError(f"no history of {listed(missing)}: add --from {missing[0]}=PATH")
    return found


def check_places(sources: Iterable[str], output: str | None, options: BackfillOptions) -> None:
    """Raise ConfigurationError for what this machine's file system shows, so that nobody waits for Spark to say it."""
    if not is_local(options.master):
        return
    for path in sources:
        if not _NOT_PLAIN.search(path) and not os.path.exists(path):
            raise ConfigurationError(f"{path}: no such file or folder")
    if output is not None and options.mode == "error" and not _NOT_PLAIN.search(output) and os.path.exists(output):
        raise exists_already(output)


def _named(text: str, names: list[str], flowing: list[str]) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if equals and name in names:
        return name, path
    if len(flowing) == 1 and (not equals or "/" in name):
        return flowing[0], text
    if equals:
        raise ConfigurationError(f"--from {text}: {unknown('stream', name, names)}")
    raise ConfigurationError(f"--from {text}: the query reads {listed(flowing)}; say whose history it is, NAME=PATH")
