"""`spojoin backfill`: results in order, and mistakes as one sentence."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import spojoin
from spojoin.cli.main import app
from tests.support.long import long_only

pytestmark = pytest.mark.spark

ROWS = 3_000
STATEMENT = """SELECT l.seq, r.seq AS other FROM s AS l JOIN s AS r ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '1' ON '50')"""
QUERY = f"""
name: higher
streams:
  s: {{schema: {{seq: long, a: long, b: long}}}}
sql: |
  {STATEMENT}
order: arrival
"""
COMMAND = [sys.executable, "-m", "spojoin.cli.main", "backfill", "q.yaml"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    random = np.random.default_rng(1)
    table = pa.table({"seq": np.arange(ROWS), "a": random.integers(0, 9, ROWS), "b": random.integers(0, 9, ROWS)})
    (tmp_path / "s").mkdir()
    pq.write_table(table.slice(0, 1_000), tmp_path / "s/0.parquet")
    pq.write_table(table.slice(1_000), tmp_path / "s/1.parquet")
    pa.csv.write_csv(table, tmp_path / "s.csv")
    (tmp_path / "q.yaml").write_text(QUERY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def backfill(*arguments: str) -> Result:
    """In this process, whose Java machine goes on to the next test: a start of it takes longer than what is tested.

    Paths that Spark reads must be whole: its machine stays in the folder in which it has started.
    """
    return CliRunner().invoke(app, ["backfill", "q.yaml", *arguments])


def rows(folder: Path) -> list[dict[str, int]]:
    return [row for path in sorted(folder.glob("part-*")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize(("source", "options"), [("s", ()), ("s.csv", ("--format", "csv"))])
def test_results_are_those_of_the_rows_before_until(folder: Path, source: str, options: tuple[str, ...]) -> None:
    out = str(folder / "out")
    asked = ("--order-by", "seq", "--until", "1500", "--shares", "2", "-o", out)
    done = backfill("--from", str(folder / source), *options, *asked)
    assert done.exit_code == 0, done.stderr
    cut = pq.read_table(folder / "s").slice(0, 1_500)
    expected = spojoin.sql(STATEMENT, s=cut).to_arrow().to_pylist()
    assert rows(folder / "out") == expected
    assert f"{len(expected):,} rows of results in {out}" in done.stdout


def test_the_plan_is_printed_and_nothing_written(folder: Path) -> None:
    done = backfill("--from", f"s={folder / 's'}", "--order-by", "seq", "--until", "1500", "--explain")
    assert done.exit_code == 0, done.stderr
    assert "1,500 answer, those before `until`" in done.stdout
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from", "non*", "--order-by", "seq", "-o", "out"], "non*: no such file or folder"),
        long_only(["--from", "s", "--order-by", "a", "-o", "out"], "two rows have a 0: a sequence column numbers"),
    ],
)
def test_a_mistake_that_spark_finds_is_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    (said,) = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
    assert sentence in said
    assert not (folder / "out").exists()


def test_a_java_process_that_dies_is_one_sentence(folder: Path) -> None:
    rows = 2_000_000  # far more than it answers before it is killed
    pq.write_table(pa.table({name: np.arange(rows) for name in ("seq", "a", "b")}), folder / "many.parquet")
    command = [*COMMAND, "--from", "many.parquet", "--order-by", "seq", "-o", "out"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("out/_pending-*")):
        assert process.poll() is None
        time.sleep(0.01)
    (java,) = [each for each in psutil.Process(process.pid).children() if each.name() == "java"]
    java.kill()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "Spark's Java process ended before the answer was there" in said
    assert "Traceback" not in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from", "s"], "--output is missing"),
        (["--from", "t=x", "-o", "out"], "--from t=x: unknown stream 't'"),
        (["--from", "s", "--from", "s=s", "-o", "out"], "'s' has a path already, s"),
        (["--from", "s", "--conf", "x", "-o", "out"], "--conf x: expected NAME=VALUE"),
        (["--from", "none", "-o", "out"], "none: no such file or folder"),
        (["--from", "s", "-o", "s"], "s exists already: name another place"),
        (["--from", "s", "-o", "s", "--mode", "add"], "--mode add: expected one of error, overwrite, append"),
    ],
)
def test_a_mistake_that_needs_no_spark_ends_before_it_starts(folder: Path, arguments: list[str], sentence: str) -> None:
    result = backfill(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
