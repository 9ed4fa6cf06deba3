"""What files, tables and data frames tell about their columns."""

import gzip
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.columns.stream_columns import arrow_type
from spojoin.embedded import inferred_schema
from spojoin.embedded.inferred_schema import schema_of, schema_with_notes
from spojoin.embedded.readers import open_reader
from spojoin.errors import BadData, ConfigurationError


def said(source):
    return {name: str(kind) for name, kind in schema_of(source).items()}


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


CSV = """\
n,code,price,day,at,ok,none,name,u
1,007,1,2013-01-01,2013-01-01T05:00:00Z,true,,Ann,550e8400-e29b-41d4-a716-446655440000
,010,2.5,NA,2013-01-02,,NA,"",
"""


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.tsv"])
def test_csv(tmp_path, name):
    text = CSV.replace(",", "\t") if name == "x.tsv" else CSV
    assert said(write(tmp_path / name, text)) == {
        "n": "long",
        "code": "string",
        "price": "double",
        "day": "date",
        "at": "timestamptz",
        "ok": "boolean",
        "none": "string",
        "name": "string",
        "u": "string",
    }


def test_json_tells_numbers_from_text(tmp_path):
    rows = [
        {"n": 1, "x": 1, "id": "12", "at": "2013-01-01T05:00:00Z", "ok": True, "mixed": 1, "none": None},
        {"n": None, "x": 1.5, "id": "13", "at": "2013-01-02", "ok": False, "mixed": "a", "deep": {"a": 1}},
        {"big": 9223372036854775808, "flags": [1], "late": "x"},
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n")
    (tmp_path / "x.json").write_text(json.dumps(rows))
    for name in ("x.jsonl", "x.json"):
        found = schema_with_notes(tmp_path / name)
        assert {column: str(kind) for column, kind in found.columns.items()} == {
            "n": "long",
            "x": "double",
            "id": "string",
            "at": "timestamptz",
            "ok": "boolean",
            "mixed": "string",
            "none": "string",
            "big": "decimal(38,0)",
            "late": "string",
        }
        assert sorted(found.left_out) == ["deep", "flags"]
        assert found.left_out["deep"] == (
            "column 'deep' holds objects or arrays: make columns of their fields first, or text of all, as by: "
            f"jq -c '.deep |= tojson' {name} > NEW.jsonl"
        )
        carried = schema_with_notes(tmp_path / name, carries=True)
        assert not carried.left_out
        assert {"deep", "flags"} <= carried.columns.keys()


@pytest.mark.parametrize(
    ("text", "expected"), [("a,b\n", {"a": "string", "b": "string"}), ("a\n\n\n", {"a": "string"})]
)
def test_no_rows_tell_strings(tmp_path, text, expected):
    assert said(write(tmp_path / "x.csv", text)) == expected


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,b,a", ["a", "b", "a_1"]),
        ("a,a_1,a,a", ["a", "a_1", "a_2", "a_3"]),
        (",x,", ["column0", "x", "column2"]),
        ("a,A", ["a", "A"]),
    ],
)
def test_each_column_of_csv_has_a_name_of_its_own(tmp_path, header, names):
    cells = ",".join("1" for _ in names)
    found = schema_with_notes(write(tmp_path / "x.csv", f"{header}\n{cells}\n"))
    assert (list(found.columns), found.left_out) == (names, {})


def test_a_frame_with_a_name_twice_is_refused_by_it():
    with pytest.raises(BadData, match="column 'a' occurs more than once"):
        schema_with_notes(pd.DataFrame([[1, 2]], columns=["a", "a"]))


TABLE = pa.table(
    {"a": pa.array([1, 2], pa.int32()), "d": pa.array(["x", "y"]).dictionary_encode(), "s": [{"f": 1}, {"f": 2}]}
)


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.schema,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        {name: TABLE[name] for name in TABLE.column_names},
        pl.DataFrame(TABLE),
        pd.DataFrame({"a": pd.array([1, 2], "int32"), "d": ["x", "y"], "s": [{"f": 1}, {"f": 2}]}),
    ],
    ids=lambda source: type(source).__qualname__,
)
def test_tables_and_frames(source):
    found = schema_with_notes(source)
    assert {name: str(kind) for name, kind in found.columns.items()} == {"a": "int", "d": "string"}
    assert "has type struct<f: int64>, a nested type" in found.left_out["s"]


def test_a_reader_keeps_its_rows():
    reader = TABLE.to_reader()
    schema_of(reader)
    assert reader.read_all().num_rows == 2


@pytest.mark.parametrize("source", [5, None, [1], object()])
def test_anything_else_is_refused(source):
    with pytest.raises(BadData, match="tells no column types: expected a file"):
        schema_of(source)


def test_files_with_their_schema(tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet")
    with pa.ipc.new_file(tmp_path / "x.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    for name in ("x.parquet", "x.arrow"):
        assert said(tmp_path / name) == {"a": "int", "d": "string"}


def test_text_files_of_a_pattern_tell_what_holds_all_of_them(tmp_path):
    write(tmp_path / "x-1.csv", "a,b,c,d\n1,2013-01-01,,1\n")
    write(tmp_path / "x-2.csv.gz", "a,b,c,d\n1.5,2013-01-01 05:00,7,x\n")
    assert said(tmp_path / "x-*") == {"a": "double", "b": "timestamp", "c": "long", "d": "string"}


def test_written_types_of_a_pattern_must_agree(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": pa.nulls(1)}), tmp_path / "x-1.parquet")
    pq.write_table(pa.table({"a": pa.array([1], pa.int64()), "b": [1.5]}), tmp_path / "x-2.parquet")
    assert said(str(tmp_path / "x-*.parquet")) == {"a": "long", "b": "double"}
    pq.write_table(pa.table({"a": ["x"], "b": [1.5]}), tmp_path / "x-3.parquet")
    with pytest.raises(ConfigurationError, match=r"column 'a' has type long in .*x-1.parquet and string in .*x-3"):
        schema_of(tmp_path / "x-*.parquet")


def test_of_many_text_files_some_are_sampled_the_first_and_last_among_them(tmp_path, monkeypatch):
    monkeypatch.setattr(inferred_schema, "SAMPLE_FILES", 3)
    for at in range(9):
        write(
            tmp_path / f"x-{at}.csv",
            f"a,b,c,d\n{'x' if at == 0 else 1},{'x' if at == 8 else 1},"
            f"{'x' if at == 4 else 1},{'x' if at == 3 else 1}\n",
        )
    assert said(tmp_path / "x-*.csv") == {"a": "string", "b": "string", "c": "string", "d": "long"}


def test_missing_and_unknown_files(tmp_path):
    for name, words in (
        ("none.csv", "no such file"),
        ("none-*.csv", "no file fits"),
        ("x.xls", "can't tell its format"),
    ):
        (tmp_path / "x.xls").write_text("a")
        with pytest.raises(ConfigurationError, match=words):
            schema_of(tmp_path / name)


def test_later_rows_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(inferred_schema, "SAMPLE_ROWS", 2)
    write(tmp_path / "x.csv", "a\n1\n2\nx\n")
    write(tmp_path / "x.jsonl", '{"a": 1}\n{"a": 2}\n{"a": "x", "b": 1}\n')
    assert said(tmp_path / "x.csv") == said(tmp_path / "x.jsonl") == {"a": "long"}


CELL = st.sampled_from(
    ["", "1", "-2", "1.5", "007", "true", "2013-01-01", "2013-01-01 05:00", "NA", "x", '"a,b"', "\xff"]
)


@given(cells=st.lists(CELL, max_size=6), noise=st.lists(st.sampled_from(["1,2,3", "x", ""]), max_size=2))
def test_no_row_of_the_sample_is_refused_for_the_type_that_it_told(tmp_path_factory, cells, noise):
    from spojoin.columns.numbers import read_doubles, read_integers
    from spojoin.columns.refusals import Refusals

    path = tmp_path_factory.mktemp("poison") / "x.csv"
    lines = ["a,b", *[f"{cell},1" for cell in cells], *noise]
    path.write_bytes("\n".join(lines).encode("latin-1") + b"\n")
    kind = schema_of(path)["a"]
    for batch in open_reader(path, pa.schema([("a", arrow_type(kind))]), None):
        present = batch.column(0).drop_null()
        refusals = Refusals(len(present))
        match str(kind):
            case "double":
                read_doubles("a", kind, present, refusals)
            case "long" | "date" | "timestamp":
                read_integers("a", kind, present, refusals)
            case "boolean":
                assert set(present.to_pylist()) <= {"true"}
        assert refusals.by_row == {}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", b"", "no CSV with a header line"),
        ("x.csv", b"a,b", "no CSV with a header line"),
        ("x.csv", "a,gr\xfc\n1,2\n".encode("latin-1"), "isn't UTF-8 text; save it as UTF-8"),
        ("x.csv", "a,b\n".encode("utf-16"), "holds UTF-16 text"),
        ("x.csv.gz", b"a,b\n1,2\n", "holds no gzip"),
        ("x.csv.gz", gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 9_999)[:-30], "break off before their end"),
        ("x.json", b'[{"a": 1},', "its JSON array has no end"),
        ("x.parquet", b"PAR1", "not a whole Parquet file"),
        ("x.arrow", b"ARROW1xx", "no whole Arrow IPC file or stream"),
        ("x.arrow", b"", "no whole Arrow IPC file or stream"),
    ],
)
def test_a_file_that_tells_nothing_is_named(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ConfigurationError, BadData), match=rf"/{name}.*{words}"):
        schema_of(tmp_path / name)


def test_empty_json_has_no_columns(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"")
    assert schema_of(tmp_path / "x.jsonl") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xx\n[1]\n5\n", "no JSON object in any line, it begins with 'xx"),
        ('{"id": 1', r"no JSON object in any line, .*jq -c \. x.jsonl"),
        ('{\n  "id": 1\n}\n', r"no JSON object in any line, .*jq -c \. x.jsonl"),
        ('{"data": [{"id": 1}, {"id": 2}]}', r"field 'data' is a list of objects.*jq -c '\.data\[\]' x.jsonl"),
    ],
)
def test_json_without_rows_says_what_it_has(tmp_path, text, said):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        schema_of(tmp_path / "x.jsonl")
