"""Files of a pattern as one stream: the rows, positions and refusals of the files one after the other."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded.file_paths import files_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query

SCHEMA = pa.schema([("a", pa.int64())])
QUERY = """
name: q
streams:
  s: {schema: {a: int}, key: k}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""


def read(path, key=None, schema=SCHEMA):
    reader = open_reader(path, schema, key)
    return reader, [row for batch in reader for row in batch.to_pylist()]


def joined(folder, pattern):
    out, rejects = folder / "out.jsonl", folder / "rejects.jsonl"
    report = run(parse_query(QUERY), RunFiles({"s": pattern}, out, rejects=rejects))
    return report, *([json.loads(line) for line in each.read_text().splitlines()] for each in (out, rejects))


def without_detail(row):
    return {name: value for name, value in row.items() if name != "detail"}


LINES = st.lists(st.sampled_from(["1,x", "2,7", "3,y", "ten,8", "4", "5,6,7", ",9"]), max_size=4)


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(LINES, min_size=1, max_size=3))
def test_files_join_like_one_file_of_all_their_lines(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("parts")
    for at, lines in enumerate(parts):
        text = "a,k\n" + "".join(f"{line}\n" for line in lines)
        name, data = (f"p-{at}.csv.gz", gzip.compress(text.encode())) if at % 2 else (f"p-{at}.csv", text.encode())
        (folder / name).write_bytes(data)
    (folder / "whole.csv").write_text("a,k\n" + "".join(f"{line}\n" for lines in parts for line in lines))
    several, one = joined(folder, folder / "p-*"), joined(folder, folder / "whole.csv")
    assert several[1] == one[1]
    assert [without_detail(row) for row in several[2]] == [without_detail(row) for row in one[2]]
    where = [f"p-{at}.csv" for at, lines in enumerate(parts) for line in lines if line in ("4", "5,6,7")]
    named = [row["detail"] for row in several[2] if row["reason"] == "malformed"]
    assert [where[at] in detail for at, detail in enumerate(named)] == [True] * len(where)
    assert several[0]["tuples"] == one[0]["tuples"]
    assert several[0]["inputs"] == {"s": str(folder / "p-*")}


def test_files_are_read_by_name_and_only_files(tmp_path):
    for name, value in (("b-2.csv", 3), ("b-10.csv", 2), ("a-9.csv", 1), ("c.csv", 9)):
        (tmp_path / name).write_text(f"a\n{value}\n")
    (tmp_path / "z-1.csv").mkdir()
    reader, rows = read(tmp_path / "*-*.csv")
    assert [row["a"] for row in rows] == ["1", "2", "3"]
    assert reader.fraction == 1.0


def test_a_name_with_the_characters_of_a_pattern_is_itself(tmp_path):
    (tmp_path / "x[1].csv").write_text("a\n1\n")
    (tmp_path / "x1.csv").write_text("a\n2\n")
    assert files_of(tmp_path / "x[1].csv") == [tmp_path / "x[1].csv"]
    assert read(tmp_path / "x[1].csv")[1] == [{"a": "1"}]


def test_no_file_fits(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none-\*\.csv: no file fits this pattern"):
        open_reader(tmp_path / "none-*.csv", SCHEMA, None)


@pytest.mark.parametrize("schema", [SCHEMA, pa.schema([])])
def test_columns_that_differ_are_named(tmp_path, schema):
    (tmp_path / "x-1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x-2.csv").write_text("a\n1\n")
    with pytest.raises(ConfigurationError, match=r"x-2\.csv has no column 'b', which .*x-1\.csv has"):
        open_reader(tmp_path / "x-*.csv", schema, None)


def test_a_needed_column_that_one_file_lacks(tmp_path):
    (tmp_path / "x-1.csv").write_text("a\n1\n")
    (tmp_path / "x-2.csv").write_text("b\n1\n")
    with pytest.raises(ConfigurationError, match=r"x-2\.csv has no column 'a'"):
        open_reader(tmp_path / "x-*.csv", SCHEMA, None)


def test_keys_are_text_where_those_of_any_file_are(tmp_path):
    pq.write_table(pa.table({"a": [1], "k": [7]}), tmp_path / "x-1.parquet")
    pq.write_table(pa.table({"a": [2], "k": ["x"]}), tmp_path / "x-2.parquet")
    report, rows, _ = joined(tmp_path, tmp_path / "x-*.parquet")
    assert report["tuples"] == 2
    assert [row["key"] for row in rows] == ["7", "x"]


def test_rows_of_json_may_omit_columns_that_other_files_have(tmp_path):
    (tmp_path / "x-1.jsonl").write_text('{"a": 1, "b": 1}\n')
    (tmp_path / "x-2.jsonl").write_text('{"a": 2}\n')
    assert [row["a"] for row in read(tmp_path / "x-*.jsonl")[1]] == [1, 2]


def test_more_files_than_may_be_open_at_once(tmp_path):
    import resource

    for at in range(120):
        (tmp_path / f"x-{at:03}.csv").write_text(f"a\n{at}\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    try:
        assert [int(row["a"]) for row in read(tmp_path / "x-*.csv")[1]] == list(range(120))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_an_output_that_a_pattern_covers_is_refused(tmp_path):
    (tmp_path / "x-1.csv").write_text("a,k\n1,1\n")
    (tmp_path / "x-2.csv").write_text("a,k\n1,1\n")
    with pytest.raises(ConfigurationError, match=r"names the same file as --input s=.*x-2\.csv, which is read"):
        run(parse_query(QUERY), RunFiles({"s": tmp_path / "x-*.csv"}, tmp_path / "x-2.csv"))
