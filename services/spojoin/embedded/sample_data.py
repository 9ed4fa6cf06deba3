"""A small real data set for first steps: 5,000 flights that left New York from January 1 to 6, 2013.

`flights.csv.zst` holds them in the order of their scheduled departures; flights that were cancelled or diverted have
nulls. The data are from the R package nycflights13, which has them from the US Bureau of Transportation Statistics;
they are dedicated to the public domain (CC0 1.0).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spojoin.embedded.file_paths import is_written_directly
from spojoin.embedded.formats import ResultFormat, format_of, real_path
from spojoin.embedded.outputs import TableWriter
from spojoin.embedded.writers import open_output, open_writer
from spojoin.errors import ConfigurationError

_FILE = Path(__file__).with_name("flights.csv.zst")

#: at: the scheduled departure; distance in miles; air_time and delays in minutes; tailnum: the plane's tail number.
SAMPLE_SCHEMA = pa.schema(
    {
        "at": pa.timestamp("us", "UTC"),
        "carrier": pa.string(),
        "flight": pa.int64(),
        "tailnum": pa.string(),
        "origin": pa.string(),
        "dest": pa.string(),
        "distance": pa.int64(),
        "air_time": pa.int64(),
        "dep_delay": pa.int64(),
        "arr_delay": pa.int64(),
    }
)


def sample_flights() -> pa.Table:
    """The flights, with the columns of SAMPLE_SCHEMA."""
    from pyarrow.csv import ConvertOptions, read_csv  # noqa: PLC0415  (few commands read this file)

    options = ConvertOptions(column_types=SAMPLE_SCHEMA, null_values=[""], strings_can_be_null=True)
    with pa.input_stream(str(_FILE)) as file:
        return read_csv(file, convert_options=options)


def write_sample(path: Path, rows: int, chosen: ResultFormat | None = None) -> int:
    """Write the first `rows` flights to a file in any format of results, and return their number.

    Raises ConfigurationError if the format is unknown, if nothing can be written there, or if there is already a file
    with other content.
    """
    format_of(path, chosen)
    table = sample_flights().slice(0, rows)
    if _holds_other(real_path(path), table, chosen):
        raise ConfigurationError(f"{path} exists and holds something else: choose another name, or remove it")
    with open_output(path, table.schema, chosen) as writer:
        _write_all(writer, table)
    count: int = table.num_rows
    return count


def _holds_other(path: Path, table: pa.Table, chosen: ResultFormat | None) -> bool:
    """Whether there is a file whose content differs from the table's."""
    if not path.is_file() or is_written_directly(path):
        return False
    sink = pa.BufferOutputStream()
    with open_writer(path, table.schema, sink, chosen) as writer:
        _write_all(writer, table)
    wanted: bytes = sink.getvalue().to_pybytes()
    return path.read_bytes() != wanted


def _write_all(writer: TableWriter, table: pa.Table) -> None:
    for batch in table.to_batches():
        writer.write(batch)
