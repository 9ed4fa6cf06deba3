"""The table of truth: kinds of values, and the page's statement about each kind for every door."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spojoin.embedded.cell_text import json_values
from tests.support.pages import ROOT

KAFKA = ["Kafka JSON", "Avro", "Protobuf", "JSON Schema"]
DOORS = ["CSV", "JSON", "Parquet", "Arrow", "pandas", "Polars", *KAFKA, "Spark"]
MOMENT = dt.datetime(2024, 3, 1, 10, 0, 0, 123456)
#: By kind: an array of one value, its text, and its declaration in a schema for Kafka, None if there is none.
KINDS = {
    "whole number": (pa.array([9007199254740993]), "9007199254740993", "long"),
    "unsigned, 64 bits": (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615", "uint64"),
    "double": (pa.array([0.1]), "0.1", "double"),
    "NaN": (pa.array([float("nan")]), "nan", "double"),
    "decimal(10,2)": (pa.array([Decimal("15.25")]), "15.25", "decimal(10,2)"),
    "decimal(38,18)": (
        pa.array([Decimal("12345.678000000000000001")], pa.decimal128(38, 18)),
        "12345.678000000000000001",
        "decimal(38,18)",
    ),
    "decimal(76,38)": (pa.array([Decimal("1.5")], pa.decimal256(76, 38)), "1." + "5".ljust(38, "0"), None),
    "text": (pa.array(["Größe"]), "Größe", "string"),
    "category": (pa.array(["low"]).dictionary_encode(), "low", "string"),
    "bytes": (pa.array([b"\x00\xff"]), "AP8=", "binary"),
    "boolean": (pa.array([True]), "true", "boolean"),
    "UUID": (pa.array([uuid.UUID(int=7).bytes], pa.uuid()), str(uuid.UUID(int=7)), "uuid"),
    "date": (pa.array([dt.date(9999, 12, 31)]), "9999-12-31", "date"),
    "timestamp": (pa.array([MOMENT]), "2024-03-01T10:00:00.123456", "timestamp"),
    "year 9999": (pa.array([dt.datetime(9999, 12, 31)]), "9999-12-31T00:00:00", "timestamp"),
    "with a zone": (
        pa.array([MOMENT], pa.timestamp("us", "Europe/Berlin")),
        "2024-03-01T10:00:00.123456Z",
        "timestamptz",
    ),
    "nanoseconds": (
        pa.array([1_709_287_200_123_456_789], pa.timestamp("ns")),
        "2024-03-01T10:00:00.123456789",
        "timestamp",
    ),
    "time of day": (pa.array([dt.time(9, 30, 0, 5)]), "09:30:00.000005", None),
    "duration": (pa.array([90_500_001], pa.duration("us")), "PT90.500001S", None),
    "list": (pa.array([[1, 2]]), "[1,2]", None),
    "struct": (pa.array([{"a": 1}]), '{"a":1}', None),
    "NULL": (pa.array([None], pa.int64()), "null", "long"),
}


def said(array: pa.Array[Any]) -> str:
    """A value's text as in JSON, without quotes; NaN as a word."""
    if pa.types.is_floating(array.type) and array.is_valid()[0].as_py() and array[0].as_py() != array[0].as_py():
        return "nan"
    text = json_values(array)[0].as_py()
    if text is not None and pa.types.is_time(array.type):
        text = text.strip('"').rstrip("0")
    return "null" if text is None else text if pa.types.is_nested(array.type) else _read(text)


def _read(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def on_the_page() -> dict[str, dict[str, str]]:
    """The cells of the table, by kind and door."""
    lines = (ROOT / "services/spojoin/query/README.md").read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| value | CSV |"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        kind, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[kind] = dict(zip(DOORS, cells, strict=True))
    return rows
