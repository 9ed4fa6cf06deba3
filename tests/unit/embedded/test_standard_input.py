"""Standard input as an input: its format by its first bytes, and errors that name it."""

import bz2
import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spojoin.embedded import file_paths
from spojoin.embedded.file_paths import DASH, stored
from spojoin.embedded.inferred_schema import schema_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import BadData, ConfigurationError

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
TABLE = pa.table({"a": [1, 2], "s": ["x", None]})


def ipc(opened):
    sink = pa.BufferOutputStream()
    with opened(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue().to_pybytes()


def parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def given_input(monkeypatch):
    """Lets a test say what standard input holds."""

    def hold(data, *, is_terminal=False):
        stream = io.TextIOWrapper(io.BytesIO(data))
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
        monkeypatch.setattr(sys, "stdin", stream)

    file_paths.standard_input.cache_clear()
    yield hold
    file_paths.standard_input.cache_clear()


@pytest.mark.parametrize(
    ("data", "ending"),
    [
        (b"a,s\n1,x\n2,\n", ".csv"),
        (b"\xef\xbb\xbfa,s\n1,x\n2,\n", ".csv"),
        (b"a\ts\n1\tx\n2\t\n", ".tsv"),
        (b'{"a": 1, "s": "x"}\n{"a": 2}\n', ".json"),
        (b' [\n{"a": 1, "s": "x"}, {"a": 2}]', ".json"),
        (gzip.compress(b"a,s\n1,x\n2,\n", mtime=0), ".csv.gz"),
        (bz2.compress(b'{"a": 1, "s": "x"}\n{"a": 2}\n'), ".json.bz2"),
        (pa.Codec("zstd").compress(b"a,s\n1,x\n2,\n").to_pybytes(), ".csv.zst"),
        (ipc(pa.ipc.new_stream), ".arrow"),
        (ipc(pa.ipc.new_file), ".arrow"),
    ],
)
def test_the_format_shows_in_the_first_bytes(given_input, data, ending):
    given_input(data)
    assert file_paths.standard_input().name == f"standard input{ending}"
    reader = open_reader(DASH, SCHEMA, None)
    rows = [row for batch in reader for row in batch.to_pylist()]
    assert [{"a": int(row["a"]), "s": row["s"]} for row in rows] == TABLE.to_pylist()
    assert {name: str(kind) for name, kind in schema_of(DASH).items()} == {"a": "long", "s": "string"}
    assert schema_of("-") == schema_of(DASH)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "^standard input is empty$"),
        (parquet(), "^standard input holds Parquet, whose index stands at its end: name the file instead$"),
        (gzip.compress(parquet(), mtime=0), "^standard input holds Parquet"),
        ("a,s\n".encode("utf-16"), "^standard input holds UTF-16 text.*iconv"),
        (b"b,s\n1,2\n", "^standard input has no column 'a'; its columns are b, s"),
        (b'{"b": 1}\n', "^standard input has no column 'a'"),
    ],
)
def test_what_cannot_be_read_is_said(given_input, data, sentence):
    given_input(data)
    with pytest.raises(ConfigurationError, match=sentence):
        open_reader(DASH, SCHEMA, None)


def test_errors_while_it_is_read_name_it(given_input):
    given_input(b'a,s\n1,"x\n')
    with pytest.raises(BadData, match=r"^standard input: a quote is opened in the row at position 0 and never closed"):
        list(open_reader(DASH, SCHEMA, None))


def test_a_terminal_is_refused(given_input):
    given_input(b"a\n", is_terminal=True)
    with pytest.raises(ConfigurationError, match="standard input is the keyboard"):
        open_reader(DASH, SCHEMA, None)


def test_a_closed_one_is_refused(monkeypatch):
    file_paths.standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigurationError, match="standard input is closed"):
        open_reader(DASH, SCHEMA, None)


def test_its_device_is_the_same(given_input):
    given_input(b"a,s\n1,x\n")
    assert [batch.num_rows for batch in open_reader(Path("/dev/stdin"), SCHEMA, None)] == [1]


def test_one_stream_alone_can_be_read_from_it(given_input, tmp_path):
    given_input(b"a,s\n")
    with pytest.raises(ConfigurationError, match="only one of l, r can be read from standard input"):
        RunFiles({"l": DASH, "r": Path("/dev/stdin")}, tmp_path / "x.jsonl").check()


def test_it_is_stored_piece_by_piece_as_it_is(tmp_path):
    data = b"a\n" + b"1\n" * 2_000_000
    path = stored(io.BytesIO(data), tmp_path)
    assert path.read_bytes() == data
    assert [each.name for each in tmp_path.iterdir()] == ["standard input.csv"]
