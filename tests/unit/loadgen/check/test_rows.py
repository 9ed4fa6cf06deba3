"""Input rows as the checker reads them: what is a value, what is NULL, what is refused."""

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from loadgen.check import rows
from loadgen.check.ordering import KeyColumns, shared_codes
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
