import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded import columnar_readers, file_reader
from spojoin.embedded.readers import open_reader
from spojoin.errors import ConfigurationError

PLAIN = pa.schema([("a", pa.int64()), ("b", pa.float64())])


def read(path, schema, key=None):
    reader = open_reader(path, schema, key)
    batches = list(reader)
    return reader, [row for batch in batches for row in batch.to_pylist()]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_csv_columns_come_as_text_in_the_schemas_order(tmp_path):
    path = write(tmp_path, "x.csv", "b,more,a\n0.5,x,1\n-1e3,y,9007199254740993\n")
    _, rows = read(path, PLAIN)
    assert rows == [{"a": "1", "b": "0.5"}, {"a": "9007199254740993", "b": "-1e3"}]


def test_csv_is_text_with_nulls_for_missing_values(tmp_path):
    path = write(tmp_path, "x.csv", "a,b\n1,0.5\nten,NA\n 3 ,\n")
    _, rows = read(path, PLAIN)
    assert [row["a"] for row in rows] == ["1", "ten", "3"]
    assert [row["b"] for row in rows] == ["0.5", None, None]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("1 2 30", [1, 2, 30]), ("1 2 x", ["1", "2", "x"]), ("007 8", ["007", "8"]), ("NA N", ["NA", "N"])],
)
def test_csv_keys_are_integers_only_where_all_of_them_are(tmp_path, keys, expected):
    path = write(tmp_path, "x.csv", "k,a\n" + "".join(f"{k},1\n" for k in keys.split()))
    _, rows = read(path, pa.schema([("k", pa.null()), ("a", pa.int64())]), "k")
    assert [row["k"] for row in rows] == expected


def test_the_key_type_holds_for_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reader, "BLOCK_BYTES", 64)
    path = write(tmp_path, "x.csv", "k\n" + "".join(f"{i}\n" for i in range(100)) + "last\n")
    reader, rows = read(path, pa.schema([("k", pa.null())]), "k")
    assert reader.key_type == pa.string()
    assert rows[0] == {"k": "0"}


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.sampled_from(["1,2", "3", "4,5,6", '"7","8"']), max_size=60), block=st.integers(24, 80))
def test_malformed_csv_lines_keep_their_place_at_any_block_size(tmp_path_factory, lines, block):
    path = write(tmp_path_factory.mktemp("csv"), "x.csv", "a,b\n" + "".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        reader, rows = read(path, PLAIN)
    naive = [[c.strip('"') for c in line.split(",")] for line in lines]
    expected = [{"a": c[0], "b": c[1]} if len(c) == 2 else {"a": None, "b": None} for c in naive]
    assert rows == expected
    assert reader.malformed == {i: lines[i] for i, cells in enumerate(naive) if len(cells) != 2}


def test_quoted_line_breaks_belong_to_their_row(tmp_path):
    path = write(tmp_path, "x.csv", 'note,a\n"two\nlines",1\nplain,2\n')
    _, rows = read(path, pa.schema([("a", pa.int64())]))
    assert rows == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_compressed_text_reads_the_same(tmp_path, name):
    text = {"x.csv": "a,b\n1,2\n", "x.jsonl": '{"a": 1, "b": 2}\n'}[name]
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    reader, rows = read(tmp_path / f"{name}.gz", PLAIN)
    assert [_same(row) for row in rows] == [{"a": 1, "b": 2.0}]
    assert reader.fraction == 1.0


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.sampled_from(['{"a": 1, "b": 2.5}', '{"b": 1}', '{"a": 1.5, "b": null}', "{broken", "[1]", '{"a": "x"}']),
        max_size=40,
    ),
    block=st.integers(8, 90),
)
def test_json_lines_at_any_block_size(tmp_path_factory, lines, block):
    lines = ['{"a": 3, "b": 4}', *lines]
    path = write(tmp_path_factory.mktemp("json"), "x.jsonl", "".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        reader, rows = read(path, PLAIN)
    bad = {i: line for i, line in enumerate(lines) if line in {"{broken", "[1]"}}
    expected = [{} if i in bad else json.loads(line) for i, line in enumerate(lines)]
    assert [_same(row) for row in rows] == [{"a": _number(e.get("a")), "b": _number(e.get("b"))} for e in expected]
    assert reader.malformed == bad


def _same(row):
    return {name: _number(value) for name, value in row.items()}


def _number(value):
    """The number that a text column's value stands for."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def test_json_numbers_never_pass_a_double(tmp_path):
    text = '{"a": 9007199254740993, "d": 12345678901234567.89}\n'
    schema = pa.schema([("a", pa.int64()), ("d", pa.decimal128(19, 2))])
    for extra in ("", '{"a": "bad", "d": 1}\n'):
        _, rows = read(write(tmp_path, "x.jsonl", text + extra), schema)
        assert str(rows[0]["a"]) == "9007199254740993"
        assert str(rows[0]["d"]) == "12345678901234567.89"


@pytest.mark.parametrize(("keys", "expected"), [([1, 2], [1, 2]), (["a", 2], ["a", "2"])])
def test_json_keys_have_the_type_of_the_first(tmp_path, keys, expected):
    path = write(tmp_path, "x.jsonl", "".join(json.dumps({"k": k}) + "\n" for k in keys))
    _, rows = read(path, pa.schema([("k", pa.null())]), "k")
    assert [row["k"] for row in rows] == expected


def test_a_json_file_without_a_last_line_break(tmp_path):
    _, rows = read(write(tmp_path, "x.jsonl", '{"a": 1}\n\n{"a": 2}'), pa.schema([("a", pa.int64())]))
    assert [row["a"] for row in rows] == [1, 2]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_no_rows_at_all(tmp_path, name):
    _, rows = read(write(tmp_path, name, "a,b\n" if name == "x.csv" else ""), PLAIN)
    assert rows == []


def test_parquet_comes_in_chunks_of_the_requested_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar_readers, "CHUNK_ROWS", 3)
    table = pa.table({"b": [0.5] * 7, "x": list("abcdefg"), "a": range(7)})
    pq.write_table(table, tmp_path / "x.parquet")
    reader = open_reader(tmp_path / "x.parquet", PLAIN, None)
    batches = list(reader)
    assert [b.num_rows for b in batches] == [3, 3, 1]
    assert pa.Table.from_batches(batches) == table.select(["a", "b"])
    assert reader.fraction == 1.0


def test_errors_name_what_exists(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no column 'b'; its columns are a, c"):
        open_reader(write(tmp_path, "x.csv", "a,c\n1,2\n"), PLAIN, None)
    with pytest.raises(ConfigurationError, match="no such file"):
        open_reader(tmp_path / "none.csv", PLAIN, None)
    with pytest.raises(ConfigurationError, match="no such file: https addresses aren't read, so download the file"):
        open_reader(Path("https://example.com/x.csv"), PLAIN, None)
    with pytest.raises(ConfigurationError, match=r"can't tell its format from '.xls'; use .csv"):
        open_reader(write(tmp_path, "x.xls", ""), PLAIN, None)
    with pytest.raises(ConfigurationError, match="not a whole Parquet file"):
        open_reader(write(tmp_path, "x.parquet", "PAR1"), PLAIN, None)
    with pytest.raises(ConfigurationError, match="no CSV with a header line"):
        open_reader(write(tmp_path, "empty.csv", ""), PLAIN, None)
