"""Chooses an input's reader by the format of its files; several files are read one after the other."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from spojoin.columns.inferred import narrowest_type
from spojoin.embedded.file_content import COMPRESSED_SUFFIXES, check_content, naming_the_file
from spojoin.embedded.file_paths import check_readable, files_of, naming_standard_input
from spojoin.embedded.file_reader import Reader
from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, TypeName

if TYPE_CHECKING:
    from spojoin.embedded.file_reader import Reader

#: Opens a reader of some columns of one file.
Opener = Callable[[Path, pa.Schema, str | None], Reader]

#: The value in a folder's name that means NULL.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_TYPES = (TypeName.LONG, TypeName.DATE, TypeName.TIMESTAMP)
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
PARQUET_SUFFIXES = {".parquet", ".pq"}
ARROW_SUFFIXES = {".arrow", ".arrows", ".feather"}

#: The delimiters that a first line may have, as options name them.
_DELIMITERS = (",", "tab", ";", "|")
_HEAD_BYTES = 4096
_KNOWN = [*CSV_DELIMITERS, *sorted(JSON_SUFFIXES), *sorted(PARQUET_SUFFIXES), *sorted(ARROW_SUFFIXES)]


@dataclass(frozen=True, slots=True)
class _Part:
    """One file, as its reader found it."""

    path: Path
    found: list[str]
    key_type: pa.DataType
    size: int


class SeveralFiles(Reader):
    """The rows of several files in order, numbered consecutively; `path` is their pattern, or the dash.

    Each file is opened at the beginning to check it, and again to read it, so that any number of files can be read. If
    folders and files have a column of the same name, the folders' column counts.

    Raises ConfigurationError if a file lacks a column that another has.
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
        """A reader of the columns that the file itself has: at least one, to count its rows."""
        own = [field for field in self.schema if field.name not in self._of_folders]
        key = None if self.key in self._of_folders else self.key
        with naming_standard_input(path):
            if self.schema.names and not own:
                counted = self._opened(path, pa.schema([]), None).found[:1]
                own = [pa.field(name, pa.string()) for name in counted]
            return self._opened(path, pa.schema(own), key)

    @property
    def key_type(self) -> pa.DataType:
        """The type of the keys: text if the keys of any file are text."""
        if self.key in self._of_folders:
            return pa.string()
        types = [part.key_type for part in self._parts]
        return types[0] if all(each == types[0] for each in types) else pa.string()

    @property
    def fraction(self) -> float:
        """The fraction of the files' stored bytes that has been read."""
        total = sum(part.size for part in self._parts)
        current = self._current[0].fraction * self._current[1] if self._current else 0.0
        return (self._read_bytes + current) / total if total else 1.0

    def check_has(self, name: str) -> None:
        """Raises ConfigurationError if a file lacks the column."""
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
        """Take over a file's bad lines with their numbers in the stream, and name the file."""
        self.malformed |= {begin + at: text for at, text in reader.malformed.items()}
        plain = f"the line is no row with the columns of {reader.path.name}"
        self.malformed_because |= {begin + at: reader.malformed_because.get(at, plain) for at in reader.malformed}
        reader.malformed.clear()
        reader.malformed_because.clear()

    def _check_alike(self) -> None:
        """Check that all files have the same columns, except for JSON, whose rows may omit any column."""
        for part in self._parts:
            lacking = [name for name in self.found if name not in part.found]
            if lacking and not any(suffix in (".jsonl", ".ndjson", ".json") for suffix in part.path.suffixes):
                other = next(each.path for each in self._parts if lacking[0] in each.found)
                raise ConfigurationError(
                    f"{self.path}: {part.path} has no column {lacking[0]!r}, which {other} has; files that are read "
                    "as one stream need the same columns"
                )


def _part(path: Path, reader: Reader) -> _Part:
    return _Part(path, reader.found, reader.key_type, path.stat().st_size)


def folder_values(file: Path) -> dict[str, str | None]:
    """The values in the names of a file's folders, by column."""
    pairs = [part.split("=", 1) for part in file.parent.parts if "=" in part]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in sorted(pairs)}


def folder_columns(files: Sequence[Path]) -> dict[str, ColumnType | None]:
    """The columns in the names of all files' folders, with the types of their values, or None without a value."""
    found = [folder_values(each) for each in files]
    names = [name for name in found[0] if all(name in each for each in found)]
    return {name: narrowest_type(pa.array([each[name] for each in found], pa.string()), _TYPES) for name in names}


def open_reader(path: Path, schema: pa.Schema, key: str | None, csv: CsvOptions = AS_THE_PAGE_SAYS) -> Reader:
    """A reader for `path` by its extension: .csv, .tsv, .jsonl, .json (also .gz, .bz2, .zst), .parquet, .arrow.

    The files of a pattern such as trips-*.csv or of a folder are read as one stream, in the order of their names; `-`
    is standard input. csv: how CSV is written

    Raises ConfigurationError if the extension is unknown, if the path is missing or not a file, if the content has
    another format than the extension says, or if a column is missing.
    """
    files = files_of(path)
    if files == [path]:
        return _open_one(path, schema, key, csv)
    return SeveralFiles(path, files, schema, key, lambda each, own, its_key: _open_one(each, own, its_key, csv))


def format_suffix(path: Path, csv: CsvOptions = AS_THE_PAGE_SAYS) -> str:
    """The ending of a file's format, without that of a compression; .csv for an unknown ending with CSV options.

    Raises ConfigurationError if the extension is unknown, if the path is missing or not a file, or if the content has
    another format than the extension says.
    """
    check_readable(path)
    suffix = _suffix(path)
    if suffix not in _KNOWN and csv != AS_THE_PAGE_SAYS:
        suffix = ".csv"
    if suffix in {*CSV_DELIMITERS, *JSON_SUFFIXES, *PARQUET_SUFFIXES}:
        if suffix not in CSV_DELIMITERS or csv.encoding == AS_THE_PAGE_SAYS.encoding:
            check_content(path, suffix)
        return suffix
    if suffix in ARROW_SUFFIXES:
        return suffix
    check_content(path, suffix)
    raise ConfigurationError(
        f"{path}: can't tell its format from {suffix or 'a name without extension'!r}; use {', '.join(_KNOWN)}"
        f"{_how_to_say(path)}"
    )


def _how_to_say(path: Path) -> str:
    """How to name or describe a text of unknown format, by its first line."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        line = file.read(_HEAD_BYTES).lstrip().split(b"\n")[0].decode(errors="replace")
    if line.startswith(("{", "[")):
        return f": its text seems to be JSON, so name it {path}.json{'l' * line.startswith('{')}"
    delimiter = max(_DELIMITERS, key=lambda each: line.count(each.replace("tab", "\t")))
    said = shlex.quote(f"{path}=delim={delimiter}")
    return f", or say that it is CSV: --csv {said} (in Python csv={{'{path}': {{'delim': '{delimiter}'}}}})"


def may_be_csv(path: Path) -> bool:
    """Whether a file may be CSV: its ending is that of CSV, or not that of another format."""
    return (suffix := _suffix(path)) in CSV_DELIMITERS or suffix not in _KNOWN


def is_json(path: Path) -> bool:
    """Whether the ending is that of JSON."""
    return _suffix(path) in JSON_SUFFIXES


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path).suffix.lower()


# A format's library is loaded when the first file is read: all libraries together take a fifth of a second.
def _open_one(path: Path, schema: pa.Schema, key: str | None, csv: CsvOptions) -> Reader:
    suffix = format_suffix(path, csv)
    if suffix in CSV_DELIMITERS:
        from spojoin.embedded.csv_reader import CsvReader  # noqa: PLC0415

        return CsvReader(path, schema, key, CSV_DELIMITERS[suffix], csv)
    if suffix in JSON_SUFFIXES:
        from spojoin.embedded.json_reader import JsonLinesReader  # noqa: PLC0415

        return JsonLinesReader(path, schema, key)
    if suffix in PARQUET_SUFFIXES:
        from spojoin.embedded.columnar_readers import ParquetReader  # noqa: PLC0415

        return ParquetReader(path, schema, key)
    from spojoin.embedded.columnar_readers import ArrowReader  # noqa: PLC0415

    return ArrowReader(path, schema, key)
