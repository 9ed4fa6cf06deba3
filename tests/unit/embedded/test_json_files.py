"""JSON files: arrays, columns that no row has, and times with a fraction."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spojoin.embedded import file_reader, json_reader
from spojoin.embedded.readers import open_reader
from spojoin.errors import BadData, ConfigurationError

LONG = pa.schema([("a", pa.int64())])
TIMES = pa.schema([("a", pa.int64()), ("t", pa.null())])


def rows_of(path: Path, schema=LONG, key=None):
    reader = open_reader(path, schema, key)
    return reader, [row for batch in reader for row in batch.to_pylist()]


def write(folder: Path, text: str | bytes, name: str = "x.json") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


VALUES = st.integers(0, 99) | st.sampled_from(
    [None, 'a "quoted" \\ one', "[{,]}", "\\", 'x\\"', [1, {"b": [2]}], {"c": "],"}]
)


@settings(max_examples=80, deadline=None)
@example(rows=[], indent=None, around="\ufeff", block=1)
@given(
    rows=st.lists(st.fixed_dictionaries({"a": st.integers(0, 99), "other": VALUES}), max_size=12),
    indent=st.sampled_from([None, 0, 2]),
    around=st.sampled_from(["", "\n", "\ufeff", " \r\n\t"]),
    block=st.integers(1, 90),
)
def test_an_array_reads_as_its_elements_at_any_block_size(tmp_path_factory, rows, indent, around, block):
    text = around + json.dumps(rows, indent=indent) + around.strip("\ufeff")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        reader, found = rows_of(write(tmp_path_factory.mktemp("json"), text))
    assert [int(row["a"]) for row in found] == [row["a"] for row in rows]
    assert reader.malformed == {}


def test_lines_in_a_json_file_stay_lines(tmp_path):
    _, found = rows_of(write(tmp_path, '{"a": 1}\n\n{"a": 2}'))
    assert [row["a"] for row in found] == [1, 2]
    assert rows_of(write(tmp_path, ""))[1] == rows_of(write(tmp_path, "[]"))[1] == []


def test_a_compressed_array(tmp_path):
    _, found = rows_of(write(tmp_path, gzip.compress(b'[{"a": 1},\n {"a": 2}]'), "x.json.gz"))
    assert [row["a"] for row in found] == [1, 2]


def test_elements_other_than_objects_are_malformed_rows(tmp_path):
    reader, found = rows_of(write(tmp_path, '[{"a": 1}, 7, "x,]", {"a": 2}, {"a": }]'))
    assert [row["a"] for row in found] == ["1", None, None, "2", None]
    assert {at: text.strip() for at, text in reader.malformed.items()} == {1: "7", 2: '"x,]"', 4: '{"a": }'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}, {"a": 2}', "has no end"),
        ('[{"a": 1}, {"a": 2]', "has no end"),
        ('[{"a": 1}, {"a: 2}]', "has no end"),
        ('[{"a": 1}]\n[{"a": 2}]', "behind the end"),
        ('[{"a": 1}], {"a": 2}', "behind the end"),
    ],
)
def test_an_incomplete_array(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(BadData, match=said) as caught:
        rows_of(path)
    assert str(path) in str(caught.value)


def test_an_array_in_json_lines_is_not_a_row(tmp_path):
    reader, _ = rows_of(write(tmp_path, '{"a": 1}\n[{"a": 2}]\n', "x.jsonl"))
    assert list(reader.malformed) == [1]


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_a_column_that_no_row_has_is_named(tmp_path, name):
    lines = "".join(f'{{"a": {i}, "at": {i}}}\n' for i in range(5))
    with pytest.raises(ConfigurationError, match=r"has no column 't'; its columns are a, at"):
        rows_of(write(tmp_path, lines, name), TIMES)


def test_a_column_that_only_later_rows_have_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reader, "BLOCK_BYTES", 16)
    _, found = rows_of(write(tmp_path, '{"a": 1}\n{"a": 2}\n{"a": 3, "t": 4}\n'), TIMES)
    assert [row["t"] for row in found][:2] == [None, None]
    assert str(found[2]["t"]) == "4"


def test_an_escaped_column_name_is_found(tmp_path):
    schema = pa.schema([("a", pa.int64()), ("größe", pa.int64())])
    _, found = rows_of(write(tmp_path, '{"a": 1}\n' + json.dumps({"a": 2, "größe": 3}) + "\n"), schema)
    assert [row["größe"] for row in found] == [None, 3]


def test_times_with_a_fraction_are_read_exactly_and_together(tmp_path, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr(json_reader.JsonLinesReader, "_by_line", never)
    _, found = rows_of(write(tmp_path, '{"a": 1, "t": 1357016400.123456789}\n{"a": 2, "t": 1357016401}\n'), TIMES)
    assert [str(row["t"]) for row in found] == ["1357016400.123456789", "1357016401.000000000"]


#: Lines of objects, and why some of them are no rows of the others' kind.
NESTED = pa.schema([("a", pa.int64()), ("m", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))]))])
OBJECTS = [
    ('{"a":1,"m":{"x":1,"l":["q"]},"other":{"deep":1}}', {"a": 1, "m": {"x": 1, "l": ["q"]}}),
    ('{"a":2,"m":{"x":2}}', {"a": 2, "m": {"x": 2, "l": None}}),
    ('{"m":{},"a":3,"other":7}', {"a": 3, "m": {"x": None, "l": None}}),
    ('{"a":4,"m":null}', {"a": 4, "m": None}),
    ('{"a":5,"m":{"x":1,"new":1}}', None),
    ('{"a":6,"m":{"x":1.5}}', None),
    ('{"a":7,"m":[1]}', None),
    ('{"a":8,"m":{"l":[1]}}', None),
]


@pytest.mark.parametrize("seed", range(20))
def test_objects_are_read_whole_or_not_at_all(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    monkeypatch.setattr(file_reader, "BLOCK_BYTES", rng.choice([1, 100, 1 << 20]))
    drawn = [rng.choice(OBJECTS[: rng.choice([4, 8])]) for _ in range(rng.choice([1, 5, 20]))]
    path = write(tmp_path, "".join(line + "\n" for line, _ in drawn), "x.jsonl")
    reader, found = rows_of(path, NESTED)
    assert sorted(reader.malformed) == [at for at, (_, row) in enumerate(drawn) if row is None]
    nothing = {"a": None, "m": None}
    expected = [nothing if row is None else row for _, row in drawn]
    assert [
        nothing if at in reader.malformed else {**row, "a": int(row["a"])} for at, row in enumerate(found)
    ] == expected
