import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded import writers
from spojoin.embedded.rejects import Reject, RejectsWriter
from spojoin.embedded.writers import open_writer
from spojoin.errors import ConfigurationError

ROW = st.fixed_dictionaries(
    {
        "seq": st.integers(-(2**63), 2**63 - 1),
        "stream": st.sampled_from(["trips", 'a "quoted" one', "back\\slash", "new\nline", "é\u2028"]),
        "key": st.none() | st.text(max_size=4),
        "bits": st.none() | st.binary(max_size=5),
        "cut": st.booleans(),
    }
)
SCHEMA = pa.schema(
    [("seq", pa.int64()), ("stream", pa.string()), ("key", pa.string()), ("bits", pa.binary()), ("cut", pa.bool_())]
)


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(ROW, max_size=12), pieces=st.integers(1, 5))
def test_json_lines_hold_the_rows_of_the_batches(tmp_path_factory, rows, pieces):
    path = tmp_path_factory.mktemp("out") / "x.jsonl"
    with pytest.MonkeyPatch.context() as patch, open_writer(path, SCHEMA) as writer:
        patch.setattr(writers, "TEXT_ROWS", pieces)
        writer.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
    read = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert read == [r | {"bits": r["bits"] and base64.b64encode(r["bits"]).decode()} for r in _with_text(rows)]
    assert writer.rows == len(rows)


def _with_text(rows):
    return [r | {"bits": None if r["bits"] is None else r["bits"] or ""} for r in rows]


def test_json_lines_of_a_slice_and_of_dictionary_text():
    batch = pa.record_batch({"n": [1, 2, 3], "s": pa.array(["a", "b", "a"]).dictionary_encode()}).slice(1, 2)
    assert bytes(writers.json_lines(batch)) == b'{"n":2,"s":"b"}\n{"n":3,"s":"a"}\n'


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROW, max_size=12), group=st.integers(1, 5))
def test_parquet_round_trips_the_batches(tmp_path_factory, rows, group):
    path = tmp_path_factory.mktemp("out") / "x.parquet"
    with pytest.MonkeyPatch.context() as patch, open_writer(path, SCHEMA) as writer:
        patch.setattr(writers, "ROW_GROUP_ROWS", group)
        for at in range(0, len(rows), 2):
            writer.write(pa.RecordBatch.from_pylist(rows[at : at + 2], SCHEMA))
    assert pq.read_table(path).to_pylist() == rows


def test_an_unknown_extension_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"format to write from '.xml'; use one of .jsonl"):
        open_writer(tmp_path / "x.xml", SCHEMA)


REJECTS = [
    Reject(3, "trips", "null", "distance is null", {"distance": None, "air_time": 1.5}),
    Reject(7, "trips", "malformed", "not a row", "1;2"),
]


def test_rejects_as_json_lines(tmp_path):
    with RejectsWriter(tmp_path / "r.jsonl") as writer:
        writer.write(REJECTS)
    read = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [r["row"] for r in read] == [{"distance": None, "air_time": 1.5}, "1;2"]
    assert [(r["position"], r["reason"]) for r in read] == [(3, "null"), (7, "malformed")]


def test_rejects_as_parquet(tmp_path):
    with RejectsWriter(tmp_path / "r.parquet") as writer:
        writer.write(REJECTS)
    read = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert [json.loads(r["row"]) for r in read] == [{"distance": None, "air_time": 1.5}, "1;2"]


def test_a_report_is_one_json_object(tmp_path):
    writers.write_report(tmp_path / "report.json", {"tuples": 3, "rejected_by_reason": {"null": 1}})
    assert json.loads((tmp_path / "report.json").read_text()) == {"tuples": 3, "rejected_by_reason": {"null": 1}}
