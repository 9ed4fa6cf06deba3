"""Files of one format and the same columns as one stream, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spojoin.embedded.file_reader import Reader
from spojoin.embedded.folder_columns import folder_columns, folder_values
from spojoin.embedded.standard_input import naming_standard_input
from spojoin.errors import ConfigurationError

#: Opens a reader for one file, of columns that the file has.
Opener = Callable[[Path, pa.Schema, str | None], Reader]


@dataclass(frozen=True, slots=True)
class _Part:
    """One file, as its reader found it."""

    path: Path
    found: list[str]
    key_type: pa.DataType
    size: int


class SeveralFiles(Reader):
    """The rows of files in their order, numbered through; `path` is the pattern or the dash that stands for them.

    Every file is opened first, to be checked, and again when its turn comes: any number may be read. Columns that
    folders say stand before those of the same name in files.

    Raises ConfigurationError where a file lacks a column that another has.
    """

    def __init__(self, path: Path, files: Sequence[Path], schema: pa.Schema, key: str | None, opened: Opener) -> None:
        super().__init__(path, schema, key)
        self._opened = opened
        self._of_folders = folder_columns(files)
        first = self._open(files[0])
        self._first: Reader | None = first if len(files) == 1 else None
        self._parts = [_part(files[0], first), *(_part(each, self._open(each)) for each in files[1:])]
        self.found = list(dict.fromkeys(name for part in self._parts for name in part.found))
        self._check_alike()
        self.found = list(dict.fromkeys([*self.found, *self._of_folders]))
        self._read_bytes = 0
        self._current: tuple[Reader, int] | None = None

    def _open(self, path: Path) -> Reader:
        """A reader of what the file itself has: one of its columns at least, to count its rows."""
        own = [field for field in self.schema if field.name not in self._of_folders]
        key = None if self.key in self._of_folders else self.key
        with naming_standard_input(path):
            if self.schema.names and not own:
                counted = self._opened(path, pa.schema([]), None).found[:1]
                own = [pa.field(name, pa.string()) for name in counted]
            return self._opened(path, pa.schema(own), key)

    @property
    def key_type(self) -> pa.DataType:
        """The type of all files' keys: text if any file's are."""
        if self.key in self._of_folders:
            return pa.string()
        types = [part.key_type for part in self._parts]
        return types[0] if all(each == types[0] for each in types) else pa.string()

    @property
    def fraction(self) -> float:
        """By bytes of the files, as they are stored."""
        total = sum(part.size for part in self._parts)
        current = self._current[0].fraction * self._current[1] if self._current else 0.0
        return (self._read_bytes + current) / total if total else 1.0

    def check_has(self, name: str) -> None:
        """Raises ConfigurationError where one of the files lacks the column."""
        for part in self._parts if name not in self._of_folders else ():
            with naming_standard_input(part.path):
                (self._first or self._open(part.path)).check_has(name)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches of each file in turn."""
        position = 0
        for part in self._parts:
            reader, begin = self._first or self._open(part.path), position
            self._current = reader, part.size
            with naming_standard_input(part.path):
                for batch in reader:
                    self._take_malformed(reader, begin)
                    position += batch.num_rows
                    yield self._with_folders(batch, part.path) if self._of_folders else batch
            self._take_malformed(reader, begin)
            self._read_bytes, self._current = self._read_bytes + part.size, None

    def _with_folders(self, batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
        said, rows = folder_values(path), batch.num_rows
        columns = [
            pa.repeat(pa.scalar(said[name], pa.string()), rows) if name in self._of_folders else batch.column(name)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _take_malformed(self, reader: Reader, begin: int) -> None:
        """Number a file's bad lines as the stream does, and name the file."""
        self.malformed |= {begin + at: text for at, text in reader.malformed.items()}
        plain = f"the line is no row with the columns of {reader.path.name}"
        self.malformed_because |= {begin + at: reader.malformed_because.get(at, plain) for at in reader.malformed}
        reader.malformed.clear()
        reader.malformed_because.clear()

    def _check_alike(self) -> None:
        """A row of JSON may omit any column; other files have their columns in common."""
        for part in self._parts:
            lacking = [name for name in self.found if name not in part.found]
            if lacking and not _is_json(part.path):
                other = next(each.path for each in self._parts if lacking[0] in each.found)
                raise ConfigurationError(
                    f"{self.path}: {part.path} has no column {lacking[0]!r}, which {other} has; files that are read "
                    "as one stream need the same columns"
                )


def _part(path: Path, reader: Reader) -> _Part:
    return _Part(path, reader.found, reader.key_type, path.stat().st_size)


def _is_json(path: Path) -> bool:
    return any(suffix in (".jsonl", ".ndjson", ".json") for suffix in path.suffixes)
