"""Columns that folders of files say by their names, as in Hive and Spark: `year=2024/month=03/part-0.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from spojoin.model import ColumnType, TypeName
from spojoin.query.guessed import guessed

#: The name of a folder whose rows have no value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_TYPES = (TypeName.LONG, TypeName.DATE, TypeName.TIMESTAMP)


def folder_values(file: Path) -> dict[str, str | None]:
    """The values that the folders of a file say, by column."""
    pairs = [part.split("=", 1) for part in file.parent.parts if "=" in part]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in sorted(pairs)}


def folder_columns(files: Sequence[Path]) -> dict[str, ColumnType | None]:
    """The columns that the folders of all files say, with the types of their values; None where there is no value."""
    found = [folder_values(each) for each in files]
    names = [name for name in found[0] if all(name in each for each in found)]
    return {name: guessed(pa.array([each[name] for each in found], pa.string()), _TYPES) for name in names}
