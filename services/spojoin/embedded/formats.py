"""The formats of output files, chosen by option or by extension."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import Literal

from spojoin.embedded.file_content import COMPRESSED_SUFFIXES
from spojoin.embedded.file_paths import DASH, is_written_directly, open_file_number
from spojoin.errors import ConfigurationError


class ResultFormat(enum.StrEnum):
    """The format in which results are written."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    TABLE = "table"


#: Other names of formats.
_ALSO = {"jsonl": ResultFormat.JSON, "ndjson": ResultFormat.JSON}
_SUFFIXES = {
    ".jsonl": ResultFormat.JSON,
    ".ndjson": ResultFormat.JSON,
    ".json": ResultFormat.JSON,
    ".csv": ResultFormat.CSV,
    ".parquet": ResultFormat.PARQUET,
    ".pq": ResultFormat.PARQUET,
    ".arrow": ResultFormat.ARROW,
    ".arrows": ResultFormat.ARROW,
    ".feather": ResultFormat.ARROW,
}
#: Text formats, whose files can be compressed as a whole.
_TEXT = (ResultFormat.JSON, ResultFormat.CSV)
_FOR_PEOPLE = (ResultFormat.JSON, ResultFormat.CSV, ResultFormat.TABLE)
_STANDARD_OUTPUT = Path("/dev/stdout")


def real_path(path: Path) -> Path:
    """The path to write to, which for `-` is that of standard output."""
    return _STANDARD_OUTPUT if path == DASH else path


def format_by_name(text: str | None) -> ResultFormat | None:
    """The format that an option names, None for no option. Raises ConfigurationError for any other name."""
    if text is None or text in set(ResultFormat):
        return None if text is None else ResultFormat(text)
    if text in _ALSO:
        return _ALSO[text]
    raise ConfigurationError(f"--format {text}: expected one of {', '.join([*ResultFormat, *_ALSO])}")


def format_of(path: Path, chosen: ResultFormat | None = None) -> ResultFormat:
    """The format in which `path` is written: the chosen one, or that of its extension.

    Without an extension, a pipe, a device or standard output gets JSON lines, and a terminal a table for people.

    Raises ConfigurationError if the format is unknown, if a terminal would show binary data, or if the extension would
    compress a binary format, which compresses its columns itself.
    """
    path = real_path(path)
    is_packed = compression_of(path) is not None
    found = chosen or _by_suffix(path.with_suffix("") if is_packed else path)
    if found is None:
        raise ConfigurationError(
            f"{path}: can't tell the format to write from {path.suffix or 'a name without extension'!r}; "
            f"use one of {', '.join(_SUFFIXES)}"
        )
    if is_packed and found not in _TEXT:
        raise ConfigurationError(f"{path}: only JSON lines and CSV are compressed as a whole; leave out {path.suffix}")
    if found not in _FOR_PEOPLE and _is_terminal(path):
        raise ConfigurationError(f"a terminal can't show {found}: name a file, or choose json, csv or table")
    return found


def compression_of(path: Path) -> Literal["gzip", "bz2", "zstd"] | None:
    """Arrow's name of the compression that an extension names."""
    return COMPRESSED_SUFFIXES.get(path.suffix.lower())


def is_stream(path: Path) -> bool:
    """Whether Arrow data are written to `path` as an IPC stream: if it is .arrows, or not a regular file."""
    return path.suffix.lower() == ".arrows" or is_written_directly(path)


def _by_suffix(path: Path) -> ResultFormat | None:
    if path.suffix or not is_written_directly(path):
        return _SUFFIXES.get(path.suffix.lower())
    return ResultFormat.TABLE if _is_terminal(path) else ResultFormat.JSON


def _is_terminal(path: Path) -> bool:
    number = open_file_number(path)
    return number is not None and os.isatty(number)
