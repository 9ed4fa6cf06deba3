import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.load.messages import ipc_bytes, json_objects

NUMBERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "a": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.integers(-(2**31), 2**31 - 1),
    }
)
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.float64()), ("b", pa.int32())])


@given(st.lists(NUMBERS, max_size=20))
def test_numbers_are_written_as_they_are(rows):
    written = json_objects(pa.RecordBatch.from_pylist(rows, SCHEMA))
    assert [json.loads(value) for value in written] == rows


@pytest.mark.parametrize("a", ['quoted "text"', math.nan, math.inf])
def test_types_that_arrow_cannot_write_as_json_go_through_python(a):
    (written,) = json_objects(pa.RecordBatch.from_pylist([{"a": a}]))
    assert json.loads(written) == {"a": a if isinstance(a, str) else None}


def test_a_slice_is_written_without_its_neighbours():
    batch = pa.record_batch({"a": list(range(10_000))})
    assert len(ipc_bytes(batch.slice(5, 1))) < 1_000
    assert pa.ipc.open_stream(ipc_bytes(batch.slice(5, 2))).read_all()["a"].to_pylist() == [5, 6]
    assert json_objects(batch.slice(5, 2)) == [b'{"a":5}', b'{"a":6}']
