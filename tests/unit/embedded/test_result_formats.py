"""Results in every format hold the rows of the batches, for every type that a column can have."""

import base64
import bz2
import csv
import gzip
import io
import json
import math
import os
import pty
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded import table_for_people, writers
from spojoin.embedded.formats import ResultFormat, format_by_name, format_of
from spojoin.embedded.rejects import Reject, RejectsWriter
from spojoin.embedded.table_for_people import TableForPeople
from spojoin.embedded.writers import open_output, open_writer
from spojoin.errors import ConfigurationError

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "x": pa.float64(),
        "f": pa.float32(),
        "d": pa.decimal128(18, 7),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "there": pa.timestamp("ms", "America/New_York"),
        "naive": pa.timestamp("us"),
        "s": pa.string(),
        "big": pa.large_string(),
        "word": pa.dictionary(pa.int8(), pa.string()),
        "ok": pa.bool_(),
        "data": pa.binary(),
        "nothing": pa.null(),
    }
)
TEXT = st.sampled_from(
    ["", "a", 'a "b", c', "two\nlines", "NA", " pad", "é\u2028", "tab\t", "back\\slash", "\r", "\x01"]
)


def to_the_millisecond(moment):
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)


MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(),
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.decimals(-9999, 9999, places=7),
        "day": st.none() | st.dates(),
        "at": st.none() | MOMENT.map(lambda moment: moment.replace(tzinfo=UTC)),
        "there": st.none() | st.datetimes(datetime(1990, 1, 2), datetime(2030, 1, 1)).map(to_the_millisecond),
        "naive": st.none() | MOMENT,
        "s": st.none() | TEXT,
        "big": st.none() | TEXT,
        "word": st.none() | TEXT,
        "ok": st.none() | st.booleans(),
        "data": st.none() | st.binary(max_size=4),
        "nothing": st.none(),
    }
)
ROWS = st.lists(ROW, max_size=6)


def batch_of(rows):
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def moment(value):
    """ISO 8601 with the digits of the type unless all are zero: datetime.isoformat leaves them out then, too."""
    return None if value is None else value.isoformat(timespec="auto").replace("+00:00", "Z")


def as_json(row):
    """What a reader of JSON must find, value by value."""
    there = row["there"]
    said = None if there is None else there.isoformat(timespec="milliseconds" if there.microsecond else "auto")
    return row | {
        "x": row["x"] if row["x"] is None or math.isfinite(row["x"]) else None,
        "f": row["f"] if row["f"] is None or math.isfinite(row["f"]) else None,
        "day": None if row["day"] is None else row["day"].isoformat(),
        "at": moment(row["at"]),
        "there": None if said is None else said.replace("+00:00", "Z"),
        "naive": moment(row["naive"]),
        "data": None if row["data"] is None else base64.b64encode(row["data"]).decode(),
    }


def read_json(line):
    """An object whose decimals keep their digits; single precision rounds to it again."""
    row = json.loads(line, parse_float=str, parse_int=str)
    for name, read in (("n", int), ("x", float), ("f", float), ("d", Decimal)):
        row[name] = None if row[name] is None else read(row[name])
    if row["f"] is not None:
        row["f"] = pa.scalar(row["f"], pa.float32()).as_py()
    return row


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, pieces=st.integers(1, 4))
def test_json_lines(tmp_path_factory, rows, pieces):
    path = tmp_path_factory.mktemp("out") / "x.jsonl"
    with pytest.MonkeyPatch.context() as patch, open_writer(path, SCHEMA) as writer:
        patch.setattr(writers, "TEXT_ROWS", pieces)
        writer.write(batch_of(rows))
    assert [read_json(line) for line in path.read_bytes().split(b"\n")[:-1]] == [as_json(row) for row in rows]


def as_csv(row):
    """What Python's reader of CSV must find: all is text, and NULL is empty."""
    said = as_json(row) | {"x": row["x"], "f": row["f"]}
    return ["" if said[name] is None else said[name] for name in SCHEMA.names]


def read_csv(cells):
    """Python's cells in the types of `as_csv`."""
    readers = {"n": int, "x": float, "f": lambda text: pa.scalar(float(text), pa.float32()).as_py(), "d": Decimal}
    readers["ok"] = {"true": True, "false": False}.__getitem__
    return [readers.get(name, str)(cell) if cell else "" for name, cell in zip(SCHEMA.names, cells, strict=True)]


@settings(max_examples=80, deadline=None)
@given(rows=ROWS)
def test_csv(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("out") / "x.csv"
    with open_writer(path, SCHEMA) as writer:
        writer.write(batch_of(rows))
    header, *lines = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
    assert header == SCHEMA.names
    assert repr([read_csv(cells) for cells in lines]) == repr([as_csv(row) for row in rows])


def test_csv_tells_null_from_empty_text(tmp_path):
    batch = pa.record_batch({"a": [None, "", "x,y"], 'b"c': pa.array([b"", None, b"\0"])})
    with open_writer(tmp_path / "x.csv", batch.schema) as writer:
        writer.write(batch)
    assert (tmp_path / "x.csv").read_text() == 'a,"b""c"\n,""\n"",\n"x,y",AA==\n'


def test_csv_of_one_column_has_a_line_for_each_row(tmp_path):
    batch = pa.record_batch({"a": [None, "x", None]})
    with open_writer(tmp_path / "x.csv", batch.schema) as writer:
        writer.write(batch)
    assert (tmp_path / "x.csv").read_text() == 'a\n""\nx\n""\n'


def test_doubles_stay_doubles():
    batch = pa.record_batch({"x": [5.0, -0.0, 1e20, 0.1, math.nan, math.inf, -math.inf, None]})
    assert bytes(writers.csv_lines(batch)).split() == [*b"5.0 -0.0 1e+20 0.1 nan inf -inf".split(), b'""']
    values = [json.loads(line)["x"] for line in bytes(writers.json_lines(batch)).splitlines()]
    assert repr(values) == repr([5.0, -0.0, 1e20, 0.1, None, None, None, None])


def test_decimals_keep_their_digits():
    batch = pa.record_batch({"d": pa.array([Decimal("1.10"), Decimal("-0.01")], pa.decimal128(18, 2))})
    assert bytes(writers.json_lines(batch)) == b'{"d":1.10}\n{"d":-0.01}\n'


def test_uuids_are_text():
    value = uuid.UUID(int=2**100)
    batch = pa.record_batch({"u": pa.array([value.bytes, None], pa.uuid())})
    assert bytes(writers.json_lines(batch)).decode() == f'{{"u":"{value}"}}\n{{"u":null}}\n'


@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_arrow(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("out")
    for name, opened in (
        ("x.arrow", pa.ipc.open_file),
        ("x.feather", pa.ipc.open_file),
        ("x.arrows", pa.ipc.open_stream),
    ):
        with open_writer(folder / name, SCHEMA) as writer:
            for row in rows:
                writer.write(batch_of([row]))  # each with a dictionary of its own
        with pa.OSFile(str(folder / name)) as file:
            found = opened(file).read_all()
        assert repr(found.to_pylist()) == repr(batch_of(rows).to_pylist())
        assert found.schema.field("word").type == pa.string()


@pytest.mark.parametrize(("ending", "unpack"), [(".gz", gzip.decompress), (".bz2", bz2.decompress), (".zst", None)])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_text_is_compressed_by_its_ending(tmp_path, name, ending, unpack):
    batch = pa.record_batch({"a": list(range(5_000))})
    for each in (name, name + ending):
        with open_writer(tmp_path / each, batch.schema) as writer:
            writer.write(batch)
    with pa.input_stream(str(tmp_path / (name + ending))) as file:
        assert file.read() == (tmp_path / name).read_bytes()
    if unpack:
        assert unpack((tmp_path / (name + ending)).read_bytes()) == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("name", ["r.csv", "r.arrow", "r.jsonl.gz"])
def test_rejects_in_any_format(tmp_path, name):
    from spojoin.embedded.readers import open_reader

    with RejectsWriter(tmp_path / name) as writer:
        writer.write(
            [Reject(3, "trips", "null", "no value", {"a": None}), Reject(4, "trips", "malformed", "no row", "1;2")]
        )
    schema = pa.schema([("position", pa.int64()), ("reason", pa.string())])
    rows = [row for batch in open_reader(tmp_path / name, schema, None) for row in batch.to_pylist()]
    assert [(int(row["position"]), row["reason"]) for row in rows] == [(3, "null"), (4, "malformed")]


def test_the_format_is_that_of_the_option_or_the_extension():
    assert format_of(Path("x.CSV")) is ResultFormat.CSV
    assert format_of(Path("x.ndjson.gz")) is ResultFormat.JSON
    assert format_of(Path("x.csv"), ResultFormat.PARQUET) is ResultFormat.PARQUET
    assert format_of(Path("results"), format_by_name("csv")) is ResultFormat.CSV
    assert format_of(Path("/dev/null")) is ResultFormat.JSON
    assert format_by_name(None) is None
    for name, words in (("x.parquet.gz", "only JSON lines and CSV are compressed"), ("x", "a name without extension")):
        with pytest.raises(ConfigurationError, match=words):
            format_of(Path(name))
    with pytest.raises(ConfigurationError, match="--format xml: expected one of json, csv, parquet, arrow, table"):
        format_by_name("xml")


def test_a_terminal_takes_a_table_and_no_bytes():
    one, other = pty.openpty()
    try:
        path = Path(f"/dev/fd/{other}")
        assert format_of(path) is ResultFormat.TABLE
        assert format_of(path, ResultFormat.CSV) is ResultFormat.CSV
        with pytest.raises(ConfigurationError, match="a terminal can't show parquet"):
            format_of(path, ResultFormat.PARQUET)
    finally:
        os.close(one)
        os.close(other)


def table_text(batch, width=60):
    sink = pa.BufferOutputStream()
    with TableForPeople(sink, batch.schema, width=width) as writer:
        for at in range(0, batch.num_rows, 2):
            writer.write(batch.slice(at, 2))
    return sink.getvalue().to_pybytes().decode()


def test_a_table_for_people():
    batch = pa.record_batch({"n": [5, 1000, None], "[b]x": ["a", "\x1b[31m\n", ""], "d": [1.5, None, 10.0]})
    lines = table_text(batch).splitlines()
    assert lines[0].split() == ["n", "[b]x", "d"]
    assert lines[-1] == "3 rows"
    assert lines[2].split() == ["5", "a", "1.5"]
    assert lines[3].split() == ["1000", r"\x1b[31m\n", "NULL"]
    assert lines[4].split() == ["NULL", "10.0"]
    assert lines[2].index("5") == lines[3].index("1000") + 3  # numbers end in one column
    assert len({len(line) for line in lines[2:5]}) == 1


def test_a_long_table_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(table_for_people, "SHOWN_ROWS", 3)
    lines = table_text(pa.record_batch({"n": list(range(10))})).splitlines()
    assert [line.strip() for line in lines[2:]] == ["0", "1", "2", "10 rows; the first 3 are shown, -o FILE writes all"]
    assert table_text(pa.record_batch({"n": [7]})).splitlines()[-1] == "1 row"
    assert table_text(pa.record_batch({"n": pa.array([], pa.int64())})).splitlines()[-1] == "0 rows"


def test_an_output_appears_whole_or_not_at_all(tmp_path, capfd):
    batch = pa.record_batch({"n": [1, 2]})
    with open_output(tmp_path / "x.csv", batch.schema) as writer:
        writer.write(batch)
        assert not (tmp_path / "x.csv").exists()
    assert (tmp_path / "x.csv").read_text() == "n\n1\n2\n"
    with pytest.raises(ZeroDivisionError), open_output(tmp_path / "y.parquet", batch.schema) as writer:
        writer.write(batch.slice(1 // writer.rows))
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    nowhere = tmp_path / "no" / "x.csv"
    with pytest.raises(ConfigurationError, match="there is no folder"), open_output(nowhere, batch.schema):
        pass
    for chosen, text in ((None, '{"n":1}\n{"n":2}\n'), (ResultFormat.CSV, "n\n1\n2\n")):
        with open_output(Path("-"), batch.schema, chosen) as writer:
            writer.write(batch)
        assert capfd.readouterr() == (text, "")


def test_dates_of_tables():
    batch = pa.record_batch({"day": [date(2013, 1, 2)], "at": [datetime(2013, 1, 2, 3, tzinfo=UTC)]})
    assert table_text(batch).splitlines()[2].split() == ["2013-01-02", "2013-01-02T03:00:00Z"]


def test_parquet_of_every_type(tmp_path):
    row = dict.fromkeys(SCHEMA.names) | {"n": 1, "d": Decimal("1.5000000"), "day": date(2013, 1, 2), "data": b"\0"}
    with open_writer(tmp_path / "x.parquet", SCHEMA) as writer:
        writer.write(batch_of([row]))
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [row]


def test_rows_for_people_are_written_as_they_come():
    sink = pa.BufferOutputStream()
    writer = TableForPeople(sink, pa.schema({"n": pa.int64()}), width=40)
    writer.write(pa.record_batch({"n": [7, 12]}))
    assert sink.tell() > 0
    writer.write(pa.record_batch({"n": [1000]}))
    text = sink.getvalue().to_pybytes().decode()
    assert [line.strip() for line in text.splitlines()] == ["n", "──", "7", "12", "10", "00"]
