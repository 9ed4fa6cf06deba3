"""Files and tables whose rows stand in any order, joined by their times: as if they were sorted, against DuckDB."""

import warnings
from random import Random

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import spojoin
from spojoin.cli.main import app
from spojoin.embedded import sorted_reader
from tests.support.by_duckdb import by_duckdb
from tests.support.long import first_of

INTERVAL = (
    "SELECT l.id, r.id AS other, l.x - r.x AS gap FROM {a} AS l JOIN {b} AS r "
    "ON l.k = r.k AND l.x <= r.x AND r.at BETWEEN l.at - INTERVAL '4 s' AND l.at + INTERVAL '2 s'"
)
LEFT = INTERVAL.replace("JOIN", "LEFT JOIN")
NEAREST = (
    "SELECT l.id, r.id AS other, l.x FROM {a} AS l ASOF LEFT JOIN {b} AS r "
    "ON l.k = r.k AND l.at >= r.at AND r.at >= l.at - INTERVAL '5 s'"
)
WITHIN = NEAREST.replace(" AND r.at >= l.at - INTERVAL '5 s'", "")


def drawn(rng, count, shape):
    """Rows with distinct times, in the order that the shape says."""
    seconds = rng.sample(range(4 * count + 1), count)
    order = {
        "sorted": sorted(seconds),
        "newest first": sorted(seconds, reverse=True),
        "nearly": [s for _, s in sorted((s + rng.choice((0, 0, 3)), s) for s in seconds)],
        "shuffled": seconds,
        "late at the end": [*sorted(seconds)[1:], min(seconds)] if seconds else [],
    }[shape]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": pa.array([rng.choice("ab") for _ in range(count)], pa.string()),
            "x": pa.array([rng.randrange(9) for _ in range(count)], pa.int64()),
            "at": pa.array([s * 1_000_000 for s in order], pa.timestamp("us")),
        }
    )


def written(table, path):
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        rows = [{**row, "at": row["at"].isoformat()} for row in table.to_pylist()]
        path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    return path


def as_rows(table):
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


SHAPES = ("sorted", "newest first", "nearly", "shuffled", "late at the end")


@pytest.mark.parametrize("seed", first_of(2, range(6)))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("statement", [INTERVAL, LEFT, NEAREST])
def test_answers_are_those_of_duckdb(statement, shape, seed, tmp_path, monkeypatch):
    rng = Random(f"{statement} {shape} {seed}")
    monkeypatch.setattr(sorted_reader, "BATCH_ROWS", rng.choice((3, 1 << 16)))
    monkeypatch.setattr(sorted_reader, "HELD_BYTES", rng.choice((200, 1 << 26)))
    tables = {"a": drawn(rng, rng.choice((1, 9, 60)), shape), "b": drawn(rng, rng.choice((1, 9, 60)), shape)}
    expected = naive(statement, tables)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_rows(spojoin.sql(statement.format(a="a", b="b"), **tables).to_arrow()) == expected
        pieces = {name: iter(table.to_batches(max_chunksize=4)) for name, table in tables.items()}
        assert as_rows(spojoin.sql(statement.format(a="a", b="b"), **pieces).to_arrow()) == expected
        suffix = rng.choice((".csv", ".jsonl", ".parquet"))
        files = {name: f"'{written(table, tmp_path / (name + suffix))}'" for name, table in tables.items()}
        assert as_rows(spojoin.sql(statement.format(**files)).to_arrow()) == expected
    result = CliRunner().invoke(app, ["sql", statement.format(**files), "-o", str(tmp_path / "out.parquet"), "-q"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert as_rows(pyarrow.parquet.read_table(tmp_path / "out.parquet")) == expected


def naive(statement, tables):
    """DuckDB's answer; the nearest within a tolerance is the nearest of all, unless that is too far."""
    sql = statement
    if statement is NEAREST:
        far = "r.at < l.at - INTERVAL '5 s'"
        sql = WITHIN.replace("r.id AS other", f"CASE WHEN NOT {far} THEN r.id END AS other")
    return sorted(by_duckdb(sql.format(a="a", b="b"), **tables), key=str)


QUERY = """
name: pairs
streams:
  a: {{schema: {{id: long, k: string, x: long}}, time: at}}
  b: {{schema: {{id: long, k: string, x: long}}, time: at}}
order: event_time
sql: {sql}
{more}
"""


@pytest.mark.parametrize("output", ["out.jsonl", "-"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_file_without_lateness_sorts_too(shape, output, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    rng = Random(shape)
    tables = {"a": drawn(rng, 40, shape), "b": drawn(rng, 30, shape)}
    files = [f"--input={name}={written(table, tmp_path / (name + '.csv')).name}" for name, table in tables.items()]
    window = "SELECT l.id, r.id AS other FROM a AS l JOIN b AS r ON l.x < r.x WINDOW AS (SLIDE INTERVAL '1 s' ON '9 s')"
    (tmp_path / "q.yaml").write_text(QUERY.format(sql=window, more=""))
    result = CliRunner().invoke(app, ["run", "q.yaml", *files, "-o", output, "-q"])
    assert (result.exit_code, result.stderr) == (0, "")
    text = capfd.readouterr().out if output == "-" else (tmp_path / output).read_text()
    found = sorted((row["id"], row["other"]) for row in map(orjson.loads, text.splitlines()))
    rows = {name: table.to_pylist() for name, table in tables.items()}
    near = [(a, b) for a in rows["a"] for b in rows["b"] if abs((a["at"] - b["at"]).total_seconds()) <= 9]
    assert found == sorted((a["id"], b["id"]) for a, b in near if a["x"] < b["x"])
    (tmp_path / "q.yaml").write_text(QUERY.format(sql=window, more="lateness: 1 ms"))
    result = CliRunner().invoke(app, ["run", "q.yaml", *files, "-o", output, "-q", "--max-rejects", "100%"])
    assert ("late" in result.stderr) == (shape != "sorted")


def test_refused_rows_keep_their_position_and_keys_are_positions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,ms\n1,5000\n2,4000\n3\n4,x\n5,1000\n")
    (tmp_path / "q.yaml").write_text(
        "name: q\nstreams: {t: {schema: {a: int}, time: ms}}\norder: event_time\noutput: pairs\n"
        "sql: SELECT * FROM t AS l JOIN t AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '9 s')\n"
    )
    result = CliRunner().invoke(app, ["run", "q.yaml", "-i", "t=t.csv", "-o", "o.jsonl", "--rejects", "r.jsonl", "-q"])
    assert result.exit_code == 0, result.stderr
    rejects = [orjson.loads(line) for line in (tmp_path / "r.jsonl").read_bytes().splitlines()]
    assert sorted((row["position"], row["reason"]) for row in rejects) == [(2, "malformed"), (3, "time")]
    pairs = [orjson.loads(line) for line in (tmp_path / "o.jsonl").read_bytes().splitlines()]
    assert sorted((pair["left_key"], pair["right_key"]) for pair in pairs) == [(1, 0), (4, 0), (4, 1)], pairs
