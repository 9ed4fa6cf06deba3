"""The table of truth: what becomes of each kind of value that comes in by each door, as the page says it."""

import datetime as dt
import json
import uuid
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spojoin
from spojoin.embedded.cell_text import json_values
from spojoin.errors import BadData, QueryError
from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.query.column_types import parse_type
from spojoin.query.uuid_text import is_uuid
from spojoin.roles.router.parse import Reading, parse
from tests.support.messages import InputMessage
from tests.support.pages import ROOT

DOORS = ["CSV", "JSON", "Parquet", "Arrow", "pandas", "Polars", "Kafka JSON"]
MOMENT = dt.datetime(2024, 3, 1, 10, 0, 0, 123456)
#: By kind: an array of one value, its text, and how a schema declares it for Kafka, None where none does.
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


def said(array):
    """A value's text: that of JSON, without quotes; a NaN as a word."""
    if pa.types.is_floating(array.type) and array.is_valid()[0].as_py() and array[0].as_py() != array[0].as_py():
        return "nan"
    text = json_values(array)[0].as_py()
    if text is not None and pa.types.is_time(array.type):
        text = text.strip('"').rstrip("0")
    return "null" if text is None else text if pa.types.is_nested(array.type) else _read(text)


def _read(text):
    return json.loads(text) if text.startswith('"') else text


def source(door, kind, folder):
    """What a statement reads: a path or a table. Raises an error where the door has no such value."""
    array, text, _ = KINDS[kind]
    table = pa.table({"id": [1], "v": array})
    match door:
        case "CSV":
            cell = "" if text == "null" else text
            quoted = '"' + cell.replace('"', '""') + '"' if '"' in cell or "," in cell else cell
            (folder / "x.csv").write_text(f"id,v\n1,{quoted}\n")
            return f"'{folder}/x.csv'"
        case "JSON":
            is_bare = array.type.id in (pa.int64().id, pa.float64().id, pa.bool_().id) or pa.types.is_nested(array.type)
            is_bare |= pa.types.is_decimal(array.type) or pa.types.is_uint64(array.type)
            value = "null" if text == "null" else text if is_bare and text != "nan" else json.dumps(text)
            (folder / "x.jsonl").write_text(f'{{"id": 1, "v": {value}}}\n')
            return f"'{folder}/x.jsonl'"
        case "Parquet":
            pq.write_table(table, folder / "x.parquet")
            return f"'{folder}/x.parquet'"
    if is_uuid(array.type) and door != "Arrow":  # neither frame has them
        table = pa.table({"id": [1], "v": [text]})
    if door == "pandas":
        return table.to_pandas()
    if door == "Polars" and pa.types.is_decimal256(array.type):
        raise TypeError("Polars has no such type, and panics")
    return pl.DataFrame(table) if door == "Polars" else table


def by_statement(door, kind, folder):
    """What a statement gives of the value."""
    try:
        rows = source(door, kind, folder)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, TypeError, pd.errors.OutOfBoundsDatetime):
        return "–"
    named, tables = (rows, {}) if isinstance(rows, str) else ("x", {"x": rows})
    try:
        results = spojoin.sql(f"SELECT l.v FROM {named} AS l JOIN TABLE({named}) AS r ON l.id = r.id", **tables)
        values = results.to_arrow()["v"].combine_chunks()
    except QueryError as error:
        return "column" if "'v'" in str(error) or "l.v" in str(error) else f"? {error}"
    except BadData:
        return "row"
    if not len(values):
        return "row" if results.rejected else "lost"
    given = said(values.chunk(0) if isinstance(values, pa.ChunkedArray) else values)
    if given == KINDS[kind][1]:
        return "same"
    return "double" if pa.types.is_floating(values.type) and given == str(float(KINDS[kind][1])) else given


def by_kafka(kind):
    """What a stream of JSON gives of the value, as declared."""
    array, text, declared = KINDS[kind]
    if declared is None:
        with pytest.raises(QueryError, match="column 'v'"):
            parse_type(str(array.type), "v", 1)
        return "column"
    columns = {"id": ColumnType(TypeName.LONG), "v": parse_type(declared, "v", 1)}
    key = KeyColumn(Column("id"), Domain.INTEGER, 0, "id")
    stream = Stream("s", columns, None, None, (key,), payload=("v",))
    is_bare = pa.types.is_integer(array.type) or pa.types.is_decimal(array.type) or kind in ("double", "boolean")
    value = "null" if text == "null" else text if is_bare else json.dumps(text)
    found = parse(stream, False, 0, 0, [InputMessage(0, 0, f'{{"id": 1, "v": {value}}}'.encode(), ())], Reading())
    if found.dead:
        return "row"
    given = said(found.payload.column("v"))
    return "same" if given == text else given


def on_the_page():
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


def test_the_page_names_every_kind():
    assert list(on_the_page()) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_door_does_what_the_page_says(kind, tmp_path):
    found = {door: by_kafka(kind) if door == "Kafka JSON" else by_statement(door, kind, tmp_path) for door in DOORS}
    assert found == on_the_page()[kind]


def test_a_frame_of_pandas_is_read_as_its_own_parquet(tmp_path):
    frame = pd.DataFrame({"x": [1.0, float("nan"), -0.0, 2.5]})
    frame.to_parquet(tmp_path / "x.parquet")
    for condition in ("l.x < r.x", "l.x >= r.x", "l.x = r.x", "ABS(l.x - r.x) < 2"):
        statement = f"SELECT l.x, r.x AS other FROM {{0}} AS l JOIN TABLE({{0}}) AS r ON {condition}"
        given = spojoin.sql(statement.format("x"), x=frame).to_arrow()
        assert given.equals(spojoin.sql(statement.format(f"'{tmp_path}/x.parquet'")).to_arrow())
        assert given.num_rows
