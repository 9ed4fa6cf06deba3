import json
import math
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.window import window_of
from spojoin.embedded import columnar_readers
from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import BadData, ConfigurationError
from spojoin.query.load import parse_query
from tests.support.nested_loop import pairs_of_rows

SELF = """
name: self
streams:
  trips: {{schema: {{a: int, b: double}}, key: id}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.a > r.a AND l.b < r.b WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
output: {output}
"""
CROSS = """
name: cross
streams:
  left: {{schema: {{a: int}}, time: ts, key: id}}
  right: {{schema: {{a: int}}, time: ts, key: id}}
sql: |
  SELECT * FROM left AS l JOIN right AS r ON l.a <= r.a WINDOW AS (SLIDE INTERVAL '2' ON '6')
output: {output}
"""


def naive_self(rows, window, slide):
    """(probe, left, right) for good rows, by the definition."""
    return list(pairs_of_rows(rows, lambda left, right: left[0] > right[0] and left[1] < right[1], window, slide))


def naive_cross(left, right, window, slide):
    """From (ts, a) rows: the merged order, and (probe, left, right)."""
    order = sorted(
        [(ts, 0, i, a) for i, (ts, a) in enumerate(left)] + [(ts, 1, i, a) for i, (ts, a) in enumerate(right)]
    )
    pairs, seen = [], ([], [])
    for seq, (_, side, _, a) in enumerate(order):
        other = seen[1 - side]
        for u, b in other[window_of(len(other), window, slide)]:
            if (a <= b) if side == 0 else (b <= a):
                pairs.append((seq, seq, u) if side == 0 else (seq, u, seq))
        seen[side].append((seq, a))
    return order, sorted(pairs)


def random_rows(n, seed):
    draw = random.Random(seed)
    return [(draw.randrange(5), draw.randrange(4) / 2) for _ in range(n)]


def read_json(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def trips(request, tmp_path):
    """Forty good rows between bad ones, and the good rows' ids."""
    rows = random_rows(40, seed=3)
    cells = [(100 + i, a, b) for i, (a, b) in enumerate(rows)]
    cells.insert(5, (500, 2**40, 1.0))
    cells.insert(20, (None, 2, 1.0))
    path = tmp_path / f"trips.{request.param}"
    if request.param == "csv":
        lines = [f"{'' if i is None else i},{a},{b}" for i, a, b in cells]
        path.write_text("\n".join(["id,a,b", *lines]) + "\n")
    elif request.param == "jsonl":
        path.write_text("".join(json.dumps({"id": i, "a": a, "b": b}) + "\n" for i, a, b in cells))
    else:
        table = pa.table({name: [cell[k] for cell in cells] for k, name in enumerate(("id", "a", "b"))})
        pq.write_table(table, path)
    return path, rows


def test_counts_of_a_self_join_from_every_format(trips, tmp_path):
    path, rows = trips
    query = parse_query(SELF.format(slide=3, window=12, output="count"))
    report = run(query, RunFiles({"trips": path}, tmp_path / "out.jsonl", rejects=tmp_path / "bad.jsonl"))
    pairs = naive_self(rows, 12, 3)
    expected = [
        {
            "seq": t,
            "stream": "trips",
            "key": 100 + t,
            "matches": sum(p == t for p, _, _ in pairs),
            "as_left": sum(p == t == left for p, left, _ in pairs),
            "as_right": sum(p == t == right for p, _, right in pairs),
        }
        for t in range(len(rows))
    ]
    assert read_json(tmp_path / "out.jsonl") == expected
    assert report["rejected_by_reason"] == {"overflow": 1, "null": 1}
    assert (report["tuples"], report["matches"]) == (40, len(pairs))
    bad = read_json(tmp_path / "bad.jsonl")
    assert [(r["position"], r["stream"], r["reason"], int(r["row"]["a"])) for r in bad] == [
        (5, "trips", "overflow", 2**40),
        (20, "trips", "null", 2),
    ]


@pytest.mark.parametrize("slide", [1, 3])
def test_a_null_joins_nothing_but_takes_a_place_and_nan_is_the_greatest(tmp_path, slide):
    draw = random.Random(5)
    rows = [(draw.choice([None, 0, 1, 2]), draw.choice([None, 0.5, 1.5, math.nan, math.inf])) for _ in range(60)]
    table = pa.table({"id": range(60), "a": [a for a, _ in rows], "b": [b for _, b in rows]})
    pq.write_table(table, tmp_path / "x.parquet")
    query = parse_query(SELF.format(slide=slide, window=12, output="pairs"))
    report = run(query, RunFiles({"trips": tmp_path / "x.parquet"}, tmp_path / "out.jsonl"))
    assert (report["tuples"], report["rejected"]) == (60, 0)
    found = [(r["probe_seq"], r["left_seq"], r["right_seq"]) for r in read_json(tmp_path / "out.jsonl")]
    assert found == list(pairs_of_rows(rows, _matches, 12, slide))
    assert len(found) > 50


def _matches(left, right):
    if None in (*left, *right):
        return False
    low, high = ((2, 0.0) if math.isnan(b) else (1, b) for b in (left[1], right[1]))
    return left[0] > right[0] and low < high


def test_pairs_come_sorted_with_their_keys(trips, tmp_path):
    path, rows = trips
    query = parse_query(SELF.format(slide=1, window=9, output="pairs"))
    run(query, RunFiles({"trips": path}, tmp_path / "out.parquet"), workers=2)
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    pairs = naive_self(rows, 9, 1)
    assert [(r["probe_seq"], r["left_seq"], r["right_seq"]) for r in table] == pairs
    assert [(r["left_key"], r["right_key"]) for r in table] == [(100 + left, 100 + right) for _, left, right in pairs]


@pytest.mark.parametrize("chunk_rows", [3, 1000])
def test_two_files_are_merged_by_event_time(tmp_path, monkeypatch, chunk_rows):
    monkeypatch.setattr(columnar_readers, "CHUNK_ROWS", chunk_rows)
    draw = random.Random(5)
    left = sorted((draw.randrange(12), draw.randrange(4)) for _ in range(30))
    right = sorted((draw.randrange(6), draw.randrange(4)) for _ in range(20))
    for name, rows in (("left", left), ("right", right)):
        ids = [f"{name[0]}{i}" for i in range(len(rows))] if name == "left" else list(range(len(rows)))
        table = pa.table({"ts": [t for t, _ in rows], "a": [a for _, a in rows], "id": ids})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    paths = {name: tmp_path / f"{name}.parquet" for name in ("left", "right")}
    order, pairs = naive_cross(left, right, 6, 2)
    run(parse_query(CROSS.format(output="pairs")), RunFiles(paths, tmp_path / "pairs.jsonl"))
    found = read_json(tmp_path / "pairs.jsonl")
    assert [(r["probe_seq"], r["left_seq"], r["right_seq"]) for r in found] == pairs
    assert [(r["left_key"], r["right_key"]) for r in found] == [(f"l{order[x][2]}", order[y][2]) for _, x, y in pairs]
    run(parse_query(CROSS.format(output="count")), RunFiles(paths, tmp_path / "count.jsonl"))
    counts = read_json(tmp_path / "count.jsonl")
    assert [(r["seq"], r["stream"]) for r in counts] == [(s, ("left", "right")[o[1]]) for s, o in enumerate(order)]
    assert [r["key"] for r in counts] == [f"l{o[2]}" if o[1] == 0 else str(o[2]) for o in order]
    assert [r["matches"] for r in counts] == [sum(p == s for p, _, _ in pairs) for s in range(len(order))]


def test_lines_that_are_no_rows_are_rejected_with_their_text(tmp_path):
    (tmp_path / "x.csv").write_text("id,a,b\n1,2,3\n4,5\n6,7,8\n")
    query = parse_query(SELF.format(slide=1, window=4, output="count"))
    report = run(query, RunFiles({"trips": tmp_path / "x.csv"}, tmp_path / "o.jsonl", rejects=tmp_path / "bad.jsonl"))
    assert report["rejected_by_reason"] == {"malformed": 1}
    assert [(r["position"], r["reason"], r["row"]) for r in read_json(tmp_path / "bad.jsonl")] == [
        (1, "malformed", "4,5")
    ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_an_input_without_rows_gives_an_output_without_rows(tmp_path, name):
    (tmp_path / "x.csv").write_text("id,a,b\n")
    query = parse_query(SELF.format(slide=1, window=4, output="count"))
    report = run(query, RunFiles({"trips": tmp_path / "x.csv"}, tmp_path / name, report=tmp_path / "report.json"))
    assert report["tuples"] == 0
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert (pq.read_table(tmp_path / name).num_rows if name.endswith("parquet") else read_json(tmp_path / name)) in (
        0,
        [],
    )


def test_inputs_that_do_not_fit_the_query_are_named(tmp_path):
    query = parse_query(SELF.format(slide=1, window=4, output="count"))
    with pytest.raises(ConfigurationError, match="no file for the stream 'trips'"):
        run(query, RunFiles({}, tmp_path / "o.jsonl"))
    with pytest.raises(ConfigurationError, match="the query has no stream 'x', it has trips"):
        run(query, RunFiles({"x": tmp_path / "x.csv"}, tmp_path / "o.jsonl"))
    no_time = CROSS.replace("time: ts, ", "").format(output="count")
    with pytest.raises(ConfigurationError, match="stream 'left' has no time column"):
        run(parse_query(no_time), RunFiles({}, tmp_path / "o.jsonl"))


def test_keys_that_change_their_type_are_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 1, "a": 1, "b": 1}\n{"id": "one", "a": 1, "b": 1}\n')
    query = parse_query(SELF.format(slide=1, window=4, output="count"))
    with pytest.raises(BadData, match="key column 'id'"):
        run(query, RunFiles({"trips": tmp_path / "x.jsonl"}, tmp_path / "o.jsonl"))


def test_the_figures_once_the_window_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar_readers, "CHUNK_ROWS", 5_000)
    n = 30_000
    pq.write_table(pa.table({"id": range(n), "a": [1] * n, "b": [1.0] * n}), tmp_path / "x.parquet")
    query = parse_query(SELF.format(slide=1000, window=10_000, output="count"))
    seen = []
    report = run(query, RunFiles({"trips": tmp_path / "x.parquet"}, tmp_path / "o.jsonl"), progress=seen.append)
    assert 20_000 <= report["tuples_window_full"] < 20_000 + 5_000  # less than a frame was in flight
    assert report["tuples_per_second_window_full"] > 0
    assert seen[-1] == (1.0, n, 0, 0)
    assert [p.fraction for p in seen] == sorted(p.fraction for p in seen)


def test_rejected_rows_show_their_values_though_frames_close_later(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar_readers, "CHUNK_ROWS", 100)
    a = [2**40 if i % 1000 == 500 else 1 for i in range(20_000)]
    pq.write_table(pa.table({"id": range(20_000), "a": a, "b": [1.0] * 20_000}), tmp_path / "x.parquet")
    query = parse_query(SELF.format(slide=1, window=2, output="count"))
    run(query, RunFiles({"trips": tmp_path / "x.parquet"}, tmp_path / "o.jsonl", rejects=tmp_path / "bad.jsonl"))
    assert [(r["position"], r["row"]["id"]) for r in read_json(tmp_path / "bad.jsonl")] == [
        (i, i) for i in range(500, 20_000, 1000)
    ]
