"""Input rows as the checker reads them: what is a value, what is NULL, what is refused."""

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from loadgen.check import rows
from loadgen.check.key_columns import KeyColumns, shared_codes
from loadgen.check.output_digest import rows_sha256
from loadgen.check.spark_sql import spark_sql
from spojoin.query.load import parse_query

QUERY = """
name: q
streams:
  s:
    schema:
      town: string
      open: boolean
      id: uuid
      raw: binary
      price: decimal(6,2)
      day: date
      at: timestamp
      a: int
      b: double
    key: name
sql: |
  SELECT l.open, l.id, l.raw, l.price, l.day, l.at FROM s AS l JOIN s AS r
  ON l.town = r.town AND l.a < r.a AND l.b > r.b AND l.price < r.price WHERE r.town <> 'x'
  WINDOW AS (SLIDE INTERVAL '1' ON '2')
"""
ROW = {
    "name": "n",
    "town": "Ulm",
    "open": True,
    "id": "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
    "raw": "AAE=",
    "price": "12.50",
    "day": "2013-01-02",
    "at": "2013-01-02T03:04:05Z",
    "a": 7,
    "b": 0.5,
}


def parsed(*changes):
    query = parse_query(QUERY)
    (stream,) = query.inputs
    values = [json.dumps(ROW | change).encode() for change in changes]
    batch = pa.record_batch([[0] * len(values), list(range(len(values))), values], names=rows.MESSAGE)
    (found,) = rows.parse([batch], stream, [], needs_time=False)
    return stream, found


def cells(change):
    stream, found = parsed(change)
    (row,) = found.to_pylist()
    return row["reasons"], {name: row[f"c{i}"] for i, name in enumerate(rows.kept_columns(stream))}


def test_columns_of_all_types_are_read():
    reasons, found = cells({})
    assert reasons is None
    assert found["town"] == "Ulm"
    assert found["open"] is True
    assert found["id"] == "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    assert found["raw"] == b"\x00\x01"
    assert found["price"] == Decimal("12.50")
    assert (found["day"].isoformat(), found["at"].isoformat()) == ("2013-01-02", "2013-01-02T03:04:05")


@pytest.mark.parametrize("name", [name for name in ROW if name != "name"])
def test_null_is_a_value(name):
    stream, found = parsed({name: None})
    (row,) = found.to_pylist()
    assert row["reasons"] is None
    kept = rows.kept_columns(stream)
    if name in kept:
        assert row[f"c{kept.index(name)}"] is None
    for slot, key in enumerate(stream.keys):
        if rows.is_read_here(key):
            assert (row[f"k{slot}"] is None) == (key.text.endswith(name))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"town": 5}, "type"),
        ({"open": "perhaps"}, "type"),
        ({"id": "no uuid"}, "type"),
        ({"raw": "?"}, "type"),
        ({"price": "12345.00"}, "overflow"),
        ({"price": "0.001"}, "type"),
        ({"a": "nan"}, "nan"),
        ({"a": True}, "type"),
        ({"name": None}, "null"),
    ],
)
def test_other_values_are_refused(change, reason):
    assert cells(change)[0] == reason


def test_an_arrow_message_without_a_column_is_refused_once():
    table = pa.table({"name": ["n", "m"], "a": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    values = {"partition": [0], "offset": [0], "value": [sink.getvalue().to_pybytes()]}
    stream = parse_query(QUERY).streams[0]
    (found,) = rows.parse([pa.RecordBatch.from_pydict(values)], stream, [], needs_time=False)
    assert found["reasons"].to_pylist() == ["missing-field"]


def test_nan_is_a_double():
    stream, found = parsed({"b": "nan"})
    slot = next(slot for slot, key in enumerate(stream.keys) if key.text.endswith("b"))
    (row,) = found.to_pylist()
    assert row["reasons"] is None
    assert math.isnan(row[f"k{slot}"])


def test_texts_get_numbers_that_are_equal_iff_the_texts_are():
    stream, found = parsed({}, {"town": None}, {"town": "Ulm"}, {"town": ""}, {"town": "ulm"})
    slot = next(slot for slot, key in enumerate(stream.keys) if not rows.is_read_here(key))
    town = rows.kept_columns(stream).index("town")
    table = pa.Table.from_batches([found]).append_column(f"k{slot}", pa.chunked_array([found[f"c{town}"]]))
    column = KeyColumns(stream, table).of(slot)
    ((codes,),) = shared_codes([[column]])
    assert codes.nulls.tolist() == [False, True, False, False, False]
    assert codes.values[0] == codes.values[2]
    assert len({codes.values[0], codes.values[3], codes.values[4]}) == 3


def test_what_is_left_to_spark_is_not_guessed():
    stream, found = parsed({})
    slot = next(slot for slot, key in enumerate(stream.keys) if not rows.is_read_here(key))
    with pytest.raises(ValueError, match="needs Spark"):
        KeyColumns(stream, pa.Table.from_batches([found])).of(slot)


def test_expressions_are_translated_with_their_columns():
    assert spark_sql('"0.a" || \'/\' || "1.b"', {"0.a": "u0", "1.b": "u1"}) == "`u0` || '/' || `u1`"


# --- digests of rows --------------------------------------------------------------------------------------------------

SAMPLE = pa.table({"t": ["a", "", None], "d": [0.5, math.nan, None], "n": [1, 0, None], "f": [True, False, None]})


def test_a_digest_stands_for_values_and_not_for_how_they_are_held():
    cut = pa.concat_tables([SAMPLE.slice(0, 1), SAMPLE.slice(1)])
    coded = SAMPLE.set_column(0, "t", SAMPLE["t"].dictionary_encode())
    sliced = pa.concat_tables([SAMPLE, SAMPLE]).slice(3)
    assert {rows_sha256(each) for each in (SAMPLE, cut, coded, sliced)} == {rows_sha256(SAMPLE)}


@pytest.mark.parametrize(
    "other",
    [
        SAMPLE.slice(0, 2),
        SAMPLE.take([1, 0, 2]),
        SAMPLE.rename_columns(["t", "d", "n", "g"]),
        SAMPLE.set_column(0, "t", pa.array(["a", None, ""])),
        SAMPLE.set_column(0, "t", pa.array(["", "a", None])),
        SAMPLE.set_column(1, "d", pa.array([0.5, 0.5, None])),
        SAMPLE.set_column(2, "n", pa.array([1, None, None])),
        SAMPLE.set_column(2, "n", pa.array([1, 0, None], pa.int32())),
        SAMPLE.set_column(3, "f", pa.array([True, None, None])),
    ],
)
def test_another_table_has_another_digest(other):
    assert rows_sha256(other) != rows_sha256(SAMPLE)
