import bz2
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.embedded import file_reader
from spojoin.embedded.file_content import Utf8Stream, is_marked, unmarked
from spojoin.embedded.readers import open_reader
from spojoin.errors import BadData, ConfigurationError

SCHEMA = pa.schema([("a", pa.int64()), ("k", pa.string())])
CSV = "a,k\n" + "".join(f"{i},name{i}\n" for i in range(5_000))
JSON = "".join(f'{{"a": {i}, "k": "name{i}"}}\n' for i in range(5_000))
TABLE = pa.table({"a": [1], "k": ["x"]})


def compressed(codec, text):
    data = text.encode()
    packed = {"gz": gzip.compress, "bz2": bz2.compress}.get(codec)
    return packed(data) if packed else pa.Codec("zstd").compress(data).to_pybytes()


def arrow_file():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue().to_pybytes()


def parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    return sink.getvalue().to_pybytes()


def read(path, key=None):
    reader = open_reader(path, SCHEMA, key)
    return reader, [row for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", ["gz", "bz2", "zst"])
@pytest.mark.parametrize(("suffix", "text"), [("csv", CSV), ("jsonl", JSON)])
def test_truncated_compressed_text_is_reported(tmp_path, monkeypatch, codec, suffix, text):
    path = tmp_path / f"x.{suffix}.{codec}"
    path.write_bytes(compressed(codec, text))
    assert len(read(path)[1]) == 5_000
    path.write_bytes(compressed(codec, text)[:-200])
    for block in (1 << 10, 4 << 20):
        monkeypatch.setattr(file_reader, "BLOCK_BYTES", block)
        with pytest.raises(
            BadData, match=rf"x.{suffix}.{codec} can't be read on: its \w+ data break off .* download it"
        ):
            read(path)


def test_damaged_compressed_text_is_reported(tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(b"\x1f\x8b" + b"\x07" * 300)
    with pytest.raises(BadData, match=r"x.csv.gz can't be read on: its gzip data are damaged"):
        read(tmp_path / "x.csv.gz")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.csv", parquet(), r"x.csv holds Parquet, whatever its ending says; name it .*x.parquet"),
        ("x.jsonl", parquet(), "holds Parquet"),
        ("x.csv.gz", parquet(), "holds Parquet"),
        ("x.csv.gz", gzip.compress(parquet()), "unpacked, holds Parquet"),
        ("x.csv.gz", CSV.encode(), "holds no gzip, whatever its ending says"),
        ("x.csv", gzip.compress(CSV.encode()), r"holds gzip.*name it .*x.csv.gz"),
        ("x.csv", arrow_file(), r"holds an Arrow IPC \(Feather\) file.*save it as Parquet"),
        ("x.parquet", arrow_file(), "holds an Arrow IPC"),
        ("x.parquet", CSV.encode(), "holds no Parquet"),
        ("x.csv", CSV.encode("utf-16"), "holds UTF-16 text.*iconv -f UTF-16"),
        ("x.csv", b"PK\x03\x04" + bytes(60), "ZIP archive, as .xlsx"),
        ("x.csv", JSON.encode(), r"holds JSON.*name it .*x.jsonl"),
    ],
)
def test_a_file_whose_content_contradicts_its_extension(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=sentence):
        read(tmp_path / name)


def test_column_names_may_begin_like_a_format(tmp_path):
    (tmp_path / "x.csv").write_text("ORCID,a,k\n1,2,3\n")
    assert read(tmp_path / "x.csv")[1] == [{"a": "2", "k": "3"}]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("block", [64, 4 << 20])
def test_a_csv_row_that_is_not_utf8_is_refused_alone(tmp_path, monkeypatch, key, block):
    monkeypatch.setattr(file_reader, "BLOCK_BYTES", block)
    path = tmp_path / "x.csv"
    path.write_bytes("a,k,more\n1,grün,\n".encode() + "2,grün,\n3,x,ö\n4,ö,x,ö\n5,ok,\n".encode("latin-1"))
    reader, rows = read(path, key)
    nothing = {"a": None, "k": None}
    assert rows == [{"a": "1", "k": "grün"}, nothing, nothing, nothing, {"a": "5", "k": "ok"}]
    assert reader.malformed == {1: "2,gr\ufffdn,", 2: "3,x,\ufffd", 3: "4,\ufffd,x,\ufffd"}
    assert r"field k: b'gr\xfcn' in x.csv isn't UTF-8 text; save it as UTF-8" in reader.malformed_because[1]
    assert r"b'4,\xf6,x,\xf6' isn't UTF-8 text" in reader.malformed_because[3]


def test_column_names_that_are_not_utf8(tmp_path):
    (tmp_path / "x.csv").write_bytes("a,k,größe\n1,2,3\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"the column name b'gr\\xf6\\xdfe' isn't UTF-8 text"):
        read(tmp_path / "x.csv")


def test_a_json_row_that_is_not_utf8_is_refused_alone(tmp_path):
    lines = [b'{"a": 1, "k": "gr\xc3\xbcn"}', b'{"a": 2, "k": "gr\xfcn"}', rb'{"a": 3, "k": "\ud800"}', b"[" * 9_999]
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(lines))
    reader, rows = read(tmp_path / "x.jsonl", "k")
    assert [row["k"] for row in rows] == ["grün", None, None, None]
    assert sorted(reader.malformed) == [1, 2, 3]
    assert r"field k: b'gr\xfcn' in x.jsonl isn't UTF-8 text" in reader.malformed_because[1]
    assert "no JSON object of whole text" in reader.malformed_because[2]


def test_a_json_row_that_is_not_utf8_among_good_ones(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"a": 1, "k": "x"}\n{"a": 2, "k": "gr\xfcn"}\n')
    reader, rows = read(tmp_path / "x.jsonl", "k")
    assert [row["k"] for row in rows] == ["x", None]
    assert reader.malformed == {1: '{"a": 2, "k": "gr\ufffdn"}'}


def test_a_parquet_row_that_is_not_utf8_is_refused_alone(tmp_path):
    text = pa.StringArray.from_buffers(2, pa.array([0, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"ok\xfc"))
    pq.write_table(pa.table({"a": [1, 2], "k": text}), tmp_path / "x.parquet")
    reader, rows = read(tmp_path / "x.parquet", "k")
    assert rows == [{"a": 1, "k": "ok"}, {"a": None, "k": None}]
    assert list(reader.malformed_because) == [1]


@pytest.mark.parametrize("text", ['a,k\n1,2\n3,"4\n5,6\n', 'a,k,z\n1,2,3\n4,5,"6\n7,8,9\n', 'a,k\n1,2\n"3,4\n5,6\n7,8'])
def test_an_unclosed_quote_loses_no_rows_silently(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(BadData, match=r"x.csv: a quote is opened in the row at position 1 and never closed"):
        read(tmp_path / "x.csv")


def test_an_unclosed_quote_in_a_long_file(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reader, "BLOCK_BYTES", 1 << 10)
    (tmp_path / "x.csv").write_text(CSV.replace("7,name7", '7,"name7', 1))
    with pytest.raises(BadData, match="or a quote is opened and never closed"):
        read(tmp_path / "x.csv")


def test_truncated_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(parquet()[:-20])
    with pytest.raises(ConfigurationError, match=r"x.parquet: not a whole Parquet file"):
        read(tmp_path / "x.parquet")


def test_damaged_parquet(tmp_path):
    rows = pa.table({"a": range(50_000), "k": [f"k{i * 7919 % 50_000}" for i in range(50_000)]})
    pq.write_table(rows, tmp_path / "x.parquet", compression="none", write_page_checksum=True)
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    data[2_000:4_000] = bytes(2_000)
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(BadData, match=r"x.parquet can't be read on: "):
        read(tmp_path / "x.parquet")


class _InPieces:
    """A file that returns at most `most` bytes per read."""

    def __init__(self, data, most):
        self.data, self.most = data, most

    def read(self, size):
        piece, self.data = self.data[: min(size, self.most)], self.data[min(size, self.most) :]
        return piece


@given(st.binary(max_size=40), st.integers(1, 9), st.integers(1, 9))
def test_marked_text_is_utf8_and_preserves_its_bytes(data, size, most):
    stream = Utf8Stream(_InPieces(data, most), b"end")
    pieces = []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    text = b"".join(pieces).decode()
    try:
        assert text == data.decode() + "end"
        assert stream.has_marks == is_marked(data.decode())
    except UnicodeDecodeError:
        assert stream.has_marks
        assert unmarked(text) == data + b"end"
