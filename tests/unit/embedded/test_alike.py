"""The same rows give the same results and refusals in every format."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spojoin.embedded.inputs import open_inputs
from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query

QUERY = """
name: q
streams:
  s: {schema: {a: TYPE}, time: t, key: k}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""
FORMATS = ["csv", "parquet", "json", "jsonl"]


def write(path: Path, columns: dict[str, list]) -> Path:
    table = pa.table(columns)
    match path.suffix:
        case ".csv":
            pa_csv.write_csv(table, path)
        case ".parquet":
            pq.write_table(table, path)
        case ".json":
            path.write_text(json.dumps(table.to_pylist(), indent=1))
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


def joined(folder: Path, text: str, path: Path) -> tuple[list, list]:
    """Result rows, and (position, reason) of refused ones."""
    out, rejects = folder / f"out-{path.suffix[1:]}.jsonl", folder / f"rejects-{path.suffix[1:]}.jsonl"
    run(parse_query(text), RunFiles({"s": path}, out, rejects=rejects))
    rows, refused = ([json.loads(line) for line in each.read_text().splitlines()] for each in (out, rejects))
    return rows, [(row["position"], row["reason"]) for row in refused]


def all_formats(folder: Path, text: str, columns: dict[str, list]) -> tuple[list, list]:
    """The outcome of every format, after checking that all agree."""
    found = [joined(folder, text, write(folder / f"x.{name}", columns)) for name in FORMATS]
    assert all(each == found[0] for each in found), found
    return found[0]


@pytest.mark.parametrize(
    ("keys", "kept", "refused"),
    [(["x", None, "", "y"], ["x", "y"], [1, 2]), ([7, None, 9, 1], [7, 9, 1], [1]), ([5, 6, 7, 8], [5, 6, 7, 8], [])],
)
def test_an_empty_key_is_none(tmp_path, keys, kept, refused):
    rows, rejects = all_formats(tmp_path, QUERY.replace("TYPE", "int"), {"a": [1, 2, 3, 4], "t": [0] * 4, "k": keys})
    assert [row["key"] for row in rows] == kept
    assert rejects == [(at, "null") for at in refused]


def test_whole_numbers_in_text(tmp_path):
    columns = {"a": ["1.0", "2", "1.5", " 3.00 ", "1e1"], "t": [0] * 5, "k": list("abcde")}
    rows, rejects = all_formats(tmp_path, QUERY.replace("TYPE", "long"), columns)
    assert [(row["key"], row["matches"]) for row in rows] == [("a", 0), ("b", 1), ("d", 2), ("e", 3)]
    assert rejects == [(2, "type")]


@pytest.mark.parametrize("factor", [1, 10**6, 10**9])
@pytest.mark.parametrize("order", ["arrival", "event_time"])
def test_times_that_look_like_another_unit(tmp_path, factor, order):
    """Compared in one order, an event time in the other."""
    text = QUERY.replace("TYPE", "timestamp" if order == "arrival" else "long") + f"order: {order}\n"
    numbers = [1_357_016_400 * factor, 1_357_016_400_000, 5]
    columns = {"a": numbers, "t": [1, 1, 1], "k": [1, 2, 3]} if order == "arrival" else {"a": [1, 2, 3], "t": numbers}
    rows, rejects = all_formats(tmp_path, text, columns | {"k": [1, 2, 3]})
    assert rejects[0] == (0, "unit")
    assert 2 in [row["key"] for row in rows]


@pytest.mark.parametrize("order", ["arrival", "event_time"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_time_column_that_is_not_there_is_named(tmp_path, name, order):
    text = QUERY.replace("TYPE", "int").replace("time: t,", "time: tiem,") + f"order: {order}\n"
    path = write(tmp_path / f"x.{name}", {"a": [1, 2], "t": [0, 1], "k": [1, 2]})
    with pytest.raises(ConfigurationError, match="no column 'tiem'; its columns are a, t, k"):
        run(parse_query(text), RunFiles({"s": path}, tmp_path / "out.jsonl"))


def test_two_files_with_times_in_seconds_are_read_at_a_balanced_pace(tmp_path):
    """Times in the declared unit show which file is behind."""
    text = """
name: q
streams:
  s: {schema: {a: int, t: timestamp(s)}, time: t}
  u: {schema: {a: int, t: timestamp(s)}, time: t}
sql: SELECT * FROM s AS l JOIN u AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '10 s')
order: event_time
"""
    paths = {n: write(tmp_path / f"{n}.csv", {"a": [0, 1], "t": [1_357_016_400 + at] * 2}) for at, n in enumerate("su")}
    files = open_inputs(parse_query(text), paths)
    assert [file.read().num_rows for file in files] == [2, 2]
    assert [file.last_time_us for file in files] == [1_357_016_400_000_000, 1_357_016_401_000_000]
    report = run(parse_query(text), RunFiles(paths, tmp_path / "out.jsonl"))
    assert (report["tuples"], report["matches"], report["rejected"]) == (4, 1, 0)
