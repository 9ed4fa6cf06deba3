"""A reader for each format of input files: CSV, JSON lines, Parquet and Arrow IPC."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spojoin.embedded.content import COMPRESSED_SUFFIXES, check_content, naming_the_file
from spojoin.embedded.named_files import check_readable
from spojoin.embedded.patterns import files_of
from spojoin.embedded.several_files import SeveralFiles
from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, CsvOptions

if TYPE_CHECKING:
    from spojoin.embedded.file_reader import Reader

CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
PARQUET_SUFFIXES = {".parquet", ".pq"}
ARROW_SUFFIXES = {".arrow", ".arrows", ".feather"}
#: The delimiters that a first line may show, as options name them.
_DELIMITERS = (",", "tab", ";", "|")
_HEAD_BYTES = 4096
_KNOWN = [*CSV_DELIMITERS, *sorted(JSON_SUFFIXES), *sorted(PARQUET_SUFFIXES), *sorted(ARROW_SUFFIXES)]


def open_reader(path: Path, schema: pa.Schema, key: str | None, csv: CsvOptions = AS_THE_PAGE_SAYS) -> Reader:
    """A reader for `path` by its extension: .csv, .tsv, .jsonl, .json (also .gz, .bz2, .zst), .parquet, .arrow.

    A pattern such as trips-*.csv, or a folder, reads its files as one stream, by name; `-` reads standard input.
    csv: how CSV is written

    Raises ConfigurationError where the extension is unknown, the file is missing, is no file or holds another format
    than its extension says, or a column is not in it.
    """
    files = files_of(path)
    if files == [path]:
        return _open_one(path, schema, key, csv)
    return SeveralFiles(path, files, schema, key, lambda each, own, its_key: _open_one(each, own, its_key, csv))


def format_suffix(path: Path, csv: CsvOptions = AS_THE_PAGE_SAYS) -> str:
    """The ending of a file's format: that before the ending of a compression. Where none is known, options say CSV.

    Raises ConfigurationError where the extension is unknown, or the file is missing, is no file or holds another
    format than its extension says.
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
    """How text of unknown format is named or described, by its first line."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        line = file.read(_HEAD_BYTES).lstrip().split(b"\n")[0].decode(errors="replace")
    if line.startswith(("{", "[")):
        return f": its text seems to be JSON, so name it {path}.json{'l' * line.startswith('{')}"
    delimiter = max(_DELIMITERS, key=lambda each: line.count(each.replace("tab", "\t")))
    said = shlex.quote(f"{path}=delim={delimiter}")
    return f", or say that it is CSV: --csv {said} (in Python csv={{'{path}': {{'delim': '{delimiter}'}}}})"


def may_be_csv(path: Path) -> bool:
    """Whether options say how the file is written: its ending is that of CSV, or none of another format."""
    return (suffix := _suffix(path)) in CSV_DELIMITERS or suffix not in _KNOWN


def is_json(path: Path) -> bool:
    """Whether the ending is that of JSON."""
    return _suffix(path) in JSON_SUFFIXES


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path).suffix.lower()


# Each format's library is loaded when a file of the format is read: together they take a fifth of a second.
def _open_one(path: Path, schema: pa.Schema, key: str | None, csv: CsvOptions) -> Reader:
    suffix = format_suffix(path, csv)
    if suffix in CSV_DELIMITERS:
        from spojoin.embedded.csv_reader import CsvReader  # noqa: PLC0415

        return CsvReader(path, schema, key, CSV_DELIMITERS[suffix], csv)
    if suffix in JSON_SUFFIXES:
        from spojoin.embedded.json_reader import JsonLinesReader  # noqa: PLC0415

        return JsonLinesReader(path, schema, key)
    if suffix in PARQUET_SUFFIXES:
        from spojoin.embedded.parquet_reader import ParquetReader  # noqa: PLC0415

        return ParquetReader(path, schema, key)
    from spojoin.embedded.arrow_reader import ArrowReader  # noqa: PLC0415

    return ArrowReader(path, schema, key)
