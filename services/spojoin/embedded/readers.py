"""A reader for each format of input files: CSV, JSON lines and Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spojoin.embedded.content import COMPRESSED_SUFFIXES, check_content
from spojoin.embedded.csv_reader import CsvReader
from spojoin.embedded.file_reader import Reader
from spojoin.embedded.json_reader import JsonLinesReader
from spojoin.embedded.named_files import check_readable
from spojoin.embedded.parquet_reader import ParquetReader
from spojoin.errors import ConfigurationError

_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
_PARQUET_SUFFIXES = {".parquet", ".pq"}


def open_reader(path: Path, schema: pa.Schema, key: str | None) -> Reader:
    """A reader for `path` by its extension: .csv, .tsv, .jsonl, .ndjson, .json (also .gz, .bz2, .zst), .parquet.

    Raises ConfigurationError where the extension is unknown, the file is missing, is no file or holds another format
    than its extension says, or a column is not in it.
    """
    check_readable(path)
    suffix = path.with_suffix("").suffix.lower() if path.suffix.lower() in COMPRESSED_SUFFIXES else path.suffix.lower()
    if suffix in {*_CSV_DELIMITERS, *_JSON_SUFFIXES, *_PARQUET_SUFFIXES}:
        check_content(path, suffix)
    if suffix in _CSV_DELIMITERS:
        return CsvReader(path, schema, key, _CSV_DELIMITERS[suffix])
    if suffix in _JSON_SUFFIXES:
        return JsonLinesReader(path, schema, key)
    if suffix in _PARQUET_SUFFIXES:
        return ParquetReader(path, schema, key)
    known = ", ".join([*_CSV_DELIMITERS, *sorted(_JSON_SUFFIXES), *sorted(_PARQUET_SUFFIXES)])
    raise ConfigurationError(
        f"{path}: can't tell its format from {suffix or 'a name without extension'!r}; use {known}"
    )
