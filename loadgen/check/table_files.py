"""The files of a table as messages that the checker reads as any others: Arrow IPC streams, or lines of JSON."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, feather, parquet

from loadgen.check.rows import MISSING
from spojoin.errors import ConfigurationError
from spojoin.model import Stream, TypeName

#: Rows of a message: what one task of Spark reads.
ROWS_MAX = 65_536
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".bz2", ".zst")
#: Columns of these types have no spelling of a missing value but the empty cell.
_TEXTS = (TypeName.STRING, TypeName.BINARY, TypeName.UUID)


def files_of(path: Path) -> list[Path]:
    """The file, or those that fit a pattern, by name. Raises ConfigurationError where there is none."""
    found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise ConfigurationError(f"{path}: there is no such file, of which the query's table was made")
    return found


def messages_of(file: Path, stream: Stream) -> Iterator[bytes]:
    """The rows of a file in their order. Raises ConfigurationError for a format that the checker doesn't read."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    suffix = next((each for each in reversed(suffixes) if each not in _COMPRESSED), "")
    if suffix in (".jsonl", ".ndjson", ".json"):
        with pa.input_stream(str(file)) as lines:
            yield from (line for line in lines.read().split(b"\n") if line.strip())
        return
    for batch in _table(file, suffix, stream).to_batches(ROWS_MAX):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue())


def _table(file: Path, suffix: str, stream: Stream) -> pa.Table:
    if suffix in _DELIMITERS:
        return _cells(file, _DELIMITERS[suffix], stream)
    if suffix in (".parquet", ".pq"):
        return parquet.read_table(file)
    if suffix in (".arrow", ".arrows", ".feather"):
        return _arrow(file)
    raise ConfigurationError(
        f"{file}: the checker doesn't read this format: expected CSV, JSON lines, Parquet or Arrow, by its ending"
    )


def _arrow(file: Path) -> pa.Table:
    try:
        return feather.read_table(file)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(file.read_bytes()).read_all()


def _cells(file: Path, delimiter: str, stream: Stream) -> pa.Table:
    """The cells of a CSV file as text; NULL where one is empty, or says that there is no number, time or the like."""
    with pa.input_stream(str(file)) as source:
        names = csv.open_csv(source, parse_options=csv.ParseOptions(delimiter=delimiter)).schema.names
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    table = csv.read_csv(file, parse_options=parse, convert_options=convert)
    for at, name in enumerate(table.column_names):
        if name in stream.schema and stream.schema[name].name not in _TEXTS:
            cells = pc.utf8_trim_whitespace(table[name])
            table = table.set_column(at, name, pc.if_else(pc.is_in(cells, pa.array(sorted(MISSING))), None, cells))
    return table
