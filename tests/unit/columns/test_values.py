"""Values as expressions see them are DuckDB's casts of the same text; values that are none are refused."""

import base64
import uuid

import duckdb
import pyarrow as pa
import pytest

from spojoin.columns.refusals import Refusals
from spojoin.columns.values import read_values
from spojoin.expressions.types import duckdb_type, value_type
from spojoin.model import ColumnType, TypeName

KINDS = {
    ColumnType(TypeName.INT): ["0", "-7", "2147483647", "-2147483648"],
    ColumnType(TypeName.LONG): ["9223372036854775807", "-9223372036854775808", "12"],
    ColumnType(TypeName.FLOAT): ["0.5", "0.1", "-3.25", "3.4028234663852886e38", "inf"],
    ColumnType(TypeName.DOUBLE): ["0.1", "-2.5", "1e300", "5e-324", "-inf"],
    ColumnType(TypeName.DECIMAL, 10, 2): ["1.50", "-99999999.99", "0", "7"],
    ColumnType(TypeName.DECIMAL, 18, 0): ["999999999999999999", "-999999999999999999"],
    ColumnType(TypeName.DATE): ["2013-01-01", "1969-12-31", "0001-01-01", "9999-12-31"],
    ColumnType(TypeName.TIMESTAMP): ["2013-01-01 05:00:00", "1969-12-31 23:59:59.999999", "2013-01-01 00:00:00"],
    ColumnType(TypeName.STRING): ["", "a", "Ä", " b ", "0"],
    ColumnType(TypeName.BOOLEAN): ["true", "false", "True", "FALSE", "t", "f", "1", "0"],
    ColumnType(TypeName.UUID): ["00000000-0000-0000-0000-000000000001", "123E4567-e89b-12d3-a456-426614174000"],
}


def read(kind: ColumnType, values, arrow=None):
    array = pa.array(values, arrow)
    refusals = Refusals(len(array))
    found = read_values("x", kind, array, refusals)
    return found, {row: reason for row, (reason, _) in refusals.by_row.items()}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_texts_are_read_as_duckdb_casts_them(kind: ColumnType):
    texts = [*KINDS[kind], None]
    found, refused = read(kind, texts, pa.string())
    given = pa.table({"x": pa.array(texts, pa.string())})  # noqa: F841  (DuckDB reads it by name)
    expected = duckdb.sql(f"SELECT CAST(x AS {duckdb_type(kind)}) FROM given").fetchall()
    assert refused == {}
    assert found.type == value_type(kind)
    as_text = [str(one) if isinstance(one, uuid.UUID) else one for (one,) in expected]
    assert found.to_pylist() == as_text


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (ColumnType(TypeName.INT), {"x": "type", "1.5": "type", "2147483648": "overflow"}),
        (ColumnType(TypeName.LONG), {"9223372036854775808": "overflow", "1e99": "overflow"}),
        (ColumnType(TypeName.DOUBLE), {"1e999": "overflow", "1,5": "type"}),
        (ColumnType(TypeName.DECIMAL, 10, 2), {"0.001": "type", "100000000": "overflow"}),
        (ColumnType(TypeName.DATE), {"2013-02-29": "type", "1.1.2013": "type"}),
        (ColumnType(TypeName.TIMESTAMP), {"2013-13-01 00:00:00": "type"}),
        (ColumnType(TypeName.BOOLEAN), {"2": "type", "maybe": "type"}),
        (ColumnType(TypeName.UUID), {"123": "type", "x" * 36: "type"}),
        (ColumnType(TypeName.BINARY), {"?": "type", "YQ": "type"}),
    ],
    ids=str,
)
def test_texts_that_are_no_values_are_refused(kind: ColumnType, bad: dict[str, str]):
    found, refused = read(kind, [None, *bad], pa.string())
    assert refused == dict(enumerate(bad.values(), 1))
    assert found[0].as_py() is None


def test_other_encodings_of_the_same_values():
    assert read(ColumnType(TypeName.BOOLEAN), [1, 0, None], pa.int8())[0].to_pylist() == [True, False, None]
    assert read(ColumnType(TypeName.BOOLEAN), [2], pa.int8())[1] == {0: "type"}
    one = uuid.UUID(int=7)
    assert read(ColumnType(TypeName.UUID), [one.bytes, None], pa.binary(16))[0].to_pylist() == [str(one), None]
    encoded = base64.b64encode(b"a\0b").decode()
    assert read(ColumnType(TypeName.BINARY), [encoded, None], pa.string())[0].to_pylist() == [b"a\0b", None]
    assert read(ColumnType(TypeName.STRING), ["a", None], pa.large_string())[0].to_pylist() == ["a", None]
    assert read(ColumnType(TypeName.DOUBLE), [1, None], pa.int64())[0].to_pylist() == [1.0, None]
