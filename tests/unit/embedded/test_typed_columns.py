"""Strings, booleans, UUIDs and binary values, as each format's reader hands them over."""

import base64
import csv
import gzip
import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded import file_reader
from spojoin.embedded.readers import open_reader

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("b", pa.bool_()), ("u", pa.string()), ("x", pa.binary())])
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-5, 5),
        "s": st.none() | st.sampled_from(["", "NA", "null", " pad ", "007", 'a "b", c', "two\nlines", "é"]),
        "b": st.none() | st.booleans(),
        "u": st.none() | st.uuids(),
        "x": st.none() | st.binary(max_size=3),
    }
)


def read(path, schema=SCHEMA, key=None):
    reader = open_reader(path, schema, key)
    return reader, [row for batch in reader for row in batch.to_pylist()]


def plain(row):
    """A row's values however the format hands them over: text is accepted for every type."""
    flag, data = row["b"], row["x"]
    return {
        "n": None if row["n"] is None else int(row["n"]),
        "s": row["s"],
        "b": {"true": True, "false": False}.get(flag, flag),
        "u": row["u"],
        "x": base64.b64decode(data) if isinstance(data, str) else data,
    }


def as_csv(rows):
    """NULL is an empty cell, empty text one in quotes; all other text as Python's writer quotes it."""
    lines = ["n,s,b,u,x"]
    for row in rows:
        s = "" if row["s"] is None else '"' + row["s"].replace('"', '""') + '"'
        x = "" if row["x"] is None else f'"{base64.b64encode(row["x"]).decode()}"'
        cells = ["" if row["n"] is None else str(row["n"]), s, "" if row["b"] is None else str(row["b"]).lower()]
        lines.append(",".join([*cells, "" if row["u"] is None else str(row["u"]), x]))
    return "\n".join(lines) + "\n"


def as_json(row):
    x = None if row["x"] is None else base64.b64encode(row["x"]).decode()
    return json.dumps(row | {"u": None if row["u"] is None else str(row["u"]), "x": x})


def as_table(rows):
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    columns["u"] = pa.array([None if each is None else each.bytes for each in columns["u"]], pa.uuid())
    return pa.table({n: v if n == "u" else pa.array(v, SCHEMA.field(n).type) for n, v in columns.items()})


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=8), block=st.sampled_from([300, 4 << 20]))
def test_all_formats_give_the_same_values(tmp_path_factory, rows, block):
    folder = tmp_path_factory.mktemp("types")
    (folder / "x.csv").write_text(as_csv(rows))
    (folder / "x.csv.gz").write_bytes(gzip.compress(as_csv(rows).encode()))
    (folder / "x.jsonl").write_text("".join(as_json(row) + "\n" for row in rows))
    (folder / "x.json").write_text("[" + ",\n".join(map(as_json, rows)) + "]")
    pq.write_table(as_table(rows), folder / "x.parquet")
    for name, opened in (("x.arrow", pa.ipc.new_file), ("x.arrows", pa.ipc.new_stream)):
        with opened(folder / name, as_table(rows).schema) as writer:
            writer.write_table(as_table(rows), max_chunksize=3)
    expected = [row | {"u": None if row["u"] is None else str(row["u"])} for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        found = {path.name: [plain(row) for row in read(path)[1]] for path in sorted(folder.iterdir())}
    assert found == dict.fromkeys(found, expected)


def test_python_writes_csv_that_reads_back(tmp_path):
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["s", "n"], ["", 1], ["a,b", 2], ['"', 3]])
    _, rows = read(tmp_path / "x.csv", pa.schema([("s", pa.string())]))
    assert [row["s"] for row in rows] == [None, "a,b", '"']


def test_json_of_other_kinds_in_a_column_of_text_keeps_its_digits(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"s": 1.50}\n{"s": {"a": [1.0, "x", null]}}\n{"s": true}\n{"s": "t"}\n{}\n')
    _, rows = read(tmp_path / "x.jsonl", pa.schema([("s", pa.string())]))
    assert [row["s"] for row in rows] == ["1.50", '{"a": [1.0, "x", null]}', "true", "t", None]


@pytest.mark.parametrize("text", ["k\n1\n2\n", "k\n1\nx\n"])
def test_a_key_that_is_declared_as_text_is_text(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.jsonl").write_text('{"k": 1}\n{"k": "x"}\n')
    for name in ("x.csv", "x.jsonl"):
        reader, rows = read(tmp_path / name, pa.schema([("k", pa.string())]), "k")
        assert reader.key_type == pa.string()
        assert rows[0] == {"k": "1"}


@pytest.mark.parametrize("name", ["x.arrow", "x.feather"])
def test_arrow_that_is_not_whole(tmp_path, name):
    from spojoin.errors import BadData, ConfigurationError

    table = as_table([{"n": 1, "s": "a", "b": True, "u": uuid.UUID(int=1), "x": b""}] * 1_000)
    for opened in (pa.ipc.new_file, pa.ipc.new_stream):
        sink = pa.BufferOutputStream()
        with opened(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
        for cut in (0, 4, len(data) // 2):
            (tmp_path / name).write_bytes(data[:cut])
            with pytest.raises((ConfigurationError, BadData), match=name):
                read(tmp_path / name)
