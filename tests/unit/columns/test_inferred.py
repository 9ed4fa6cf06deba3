"""Arrow's types as column types."""

import uuid

import pyarrow as pa
import pytest

from spojoin.columns.column_types import parse_type
from spojoin.columns.inferred import common_type, infer_schema
from spojoin.columns.values import uuid_texts


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.int32(), "int"),
        (pa.uint32(), "long"),
        (pa.uint64(), "long"),
        (pa.float16(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(9, 2), "decimal(9,2)"),
        (pa.decimal128(38, 20), "decimal(38,20)"),
        (pa.decimal256(30, 3), "decimal(30,3)"),
        (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.date64(), "date"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamptz(Europe/Berlin)"),
        (pa.timestamp("s", "UTC"), "timestamptz"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.null(), "string"),
        (pa.binary(4), "binary"),
        (pa.bool_(), "boolean"),
        (pa.uuid(), "uuid"),
    ],
)
def test_types_that_a_column_can_have(arrow, expected):
    found = infer_schema(pa.schema([("x", arrow)]))
    assert ({name: str(kind) for name, kind in found.columns.items()}, found.left_out) == ({"x": expected}, {})


@pytest.mark.parametrize(
    ("arrow", "why"),
    [
        (pa.struct([("a", pa.int64())]), "column 'x' has type struct<a: int64>, a nested type: make columns"),
        (pa.list_(pa.int64()), "a nested type"),
        (pa.map_(pa.string(), pa.int64()), "a nested type"),
        (pa.time64("us"), "a time of day"),
        (pa.duration("s"), "a duration"),
        (pa.month_day_nano_interval(), "an interval"),
        (pa.decimal256(60, 3), "a decimal of more than 38 digits"),
        (pa.dense_union([pa.field("a", pa.int8())]), "a union"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run-end encoded: decode it first"),
    ],
)
def test_other_types_are_left_out_with_a_sentence(arrow, why):
    found = infer_schema(pa.schema([("x", arrow), ("y", pa.int64())]))
    assert list(found.columns) == ["y"]
    assert why in found.left_out["x"]


def test_a_repeated_name_is_left_out():
    found = infer_schema(pa.schema([("x", pa.int64()), ("y", pa.int64()), ("x", pa.string())]))
    assert (list(found.columns), list(found.left_out)) == (["y"], ["x"])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "long", "long"),
        ("int", "float", "double"),
        ("long", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("decimal(5,2)", "decimal(6,1)", "decimal(7,2)"),
        ("decimal(18,0)", "decimal(18,9)", "decimal(27,9)"),
        ("decimal(38,0)", "decimal(18,9)", "decimal(38,9)"),
        ("timestamptz(Europe/Berlin)", "timestamptz", "timestamptz"),
        ("timestamp", "timestamptz", None),
        ("date", "timestamptz", None),
        ("string", "long", None),
        ("boolean", "int", None),
        ("date", "date", "date"),
    ],
)
def test_the_type_of_two_files(one, other, expected):
    kinds = [parse_type(text, "x", 1) for text in (one, other)]
    for pair in (kinds, kinds[::-1]):
        found = common_type(*pair)
        assert (None if found is None else str(found)) == expected


def test_uuids_as_text():
    values = [uuid.UUID(int=0), None, uuid.UUID(int=2**128 - 1), uuid.uuid4()]
    array = pa.array([None if each is None else each.bytes for each in values], pa.uuid())
    for start in range(len(values)):
        expected = [None if each is None else str(each) for each in values[start:]]
        assert uuid_texts(array.slice(start)).to_pylist() == expected
