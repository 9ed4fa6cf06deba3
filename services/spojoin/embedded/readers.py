"""A reader for each format of input files: CSV, JSON lines, Parquet and Arrow IPC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spojoin.embedded.content import COMPRESSED_SUFFIXES, check_content
from spojoin.embedded.named_files import check_readable
from spojoin.embedded.patterns import files_of
from spojoin.embedded.several_files import SeveralFiles
from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, CsvOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from spojoin.embedded.file_reader import Reader

CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
PARQUET_SUFFIXES = {".parquet", ".pq"}
ARROW_SUFFIXES = {".arrow", ".arrows", ".feather"}


def open_reader(path: Path, schema: pa.Schema, key: str | None, csv: CsvOptions = AS_THE_PAGE_SAYS) -> Reader:
    """A reader for `path` by its extension: .csv, .tsv, .jsonl, .json (also .gz, .bz2, .zst), .parquet, .arrow.

    A pattern such as trips-*.csv reads the files that fit as one stream, by name; `-` reads standard input.
    csv: how CSV is written

    Raises ConfigurationError where the extension is unknown, the file is missing, is no file or holds another format
    than its extension says, or a column is not in it.
    """
    files = files_of(path)
    if files == [path]:
        return _open_one(path, schema, key, csv)
    return SeveralFiles(path, files, lambda each: _open_one(each, schema, key, csv))


def format_suffix(path: Path, csv: CsvOptions = AS_THE_PAGE_SAYS) -> str:
    """The ending of a file's format: that before the ending of a compression.

    Raises ConfigurationError where the extension is unknown, or the file is missing, is no file or holds another
    format than its extension says.
    """
    check_readable(path)
    suffix = path.with_suffix("").suffix.lower() if path.suffix.lower() in COMPRESSED_SUFFIXES else path.suffix.lower()
    if suffix in {*CSV_DELIMITERS, *JSON_SUFFIXES, *PARQUET_SUFFIXES}:
        if suffix not in CSV_DELIMITERS or csv.encoding == AS_THE_PAGE_SAYS.encoding:
            check_content(path, suffix)
        return suffix
    if suffix in ARROW_SUFFIXES:
        return suffix
    known = ", ".join([*CSV_DELIMITERS, *sorted(JSON_SUFFIXES), *sorted(PARQUET_SUFFIXES), *sorted(ARROW_SUFFIXES)])
    raise ConfigurationError(
        f"{path}: can't tell its format from {suffix or 'a name without extension'!r}; use {known}"
    )


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
