"""`spojoin run` and `spojoin sample` between pipes: results alone on standard output, words for people beside them."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

QUERY = """
name: q
streams:
  trips: {schema: {distance: double, air_time: double}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""
ROWS = [(1, 5), (2, 4), (3, 3)]
EXPECTED = [(0, 0), (1, 1), (2, 2)]


def spojoin(folder, *arguments, data=b""):
    command = [sys.executable, "-m", "spojoin.cli.main", *arguments]
    return subprocess.run(command, input=data, capture_output=True, cwd=folder, timeout=120, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "q.yaml").write_text(QUERY)
    return tmp_path


TEXT = "distance,air_time\n" + "".join(f"{a},{b}\n" for a, b in ROWS) + "x,1\n"


def test_csv_in_json_lines_out(folder):
    done = spojoin(folder, "run", "q.yaml", "-i", "trips=-", "-o", "-", data=gzip.compress(TEXT.encode()))
    assert done.returncode == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["seq"], row["matches"]) for row in rows] == EXPECTED
    assert b"1 of 4 rows refused" in done.stderr
    assert b"tuples/s" in done.stderr


def test_json_in_csv_and_arrow_out(folder):
    data = "".join(json.dumps({"distance": a, "air_time": b}) + "\n" for a, b in ROWS).encode()
    arguments = ["run", "q.yaml", "-i", "trips=-", "-o", "-", "-q", "--format"]
    done = spojoin(folder, *arguments, "csv", data=data)
    found = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    assert ([(int(row["seq"]), int(row["matches"])) for row in found], done.stderr) == (EXPECTED, b"")
    table = pa.ipc.open_stream(spojoin(folder, *arguments, "arrow", data=data).stdout).read_all()
    assert list(zip(table["seq"].to_pylist(), table["matches"].to_pylist(), strict=True)) == EXPECTED


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-i", "trips=-", "-o", "-"], "standard input is empty"),
        (["-i", "trips=none-*.csv", "-o", "-"], "none-*.csv: no file fits this pattern"),
        (
            ["-i", "trips=-", "-o", "-", "--format", "xml"],
            "--format xml: expected one of json, csv, parquet, arrow, table, jsonl, ndjson",
        ),
    ],
)
def test_mistakes_are_one_sentence(folder, arguments, sentence):
    done = spojoin(folder, "run", "q.yaml", *arguments)
    assert (done.returncode, done.stdout, done.stderr.decode().strip()) == (2, b"", f"spojoin: {sentence}")


def test_the_sample_runs_through_a_pipe(folder):
    sample = spojoin(folder, "sample", "-", "--format", "csv", "--rows", "50")
    assert (len(sample.stdout.splitlines()), sample.stderr) == (51, b"")
    assert spojoin(folder, "sample", "trips.csv", "--rows", "50").stderr == b"trips.csv: 50 flights\n"
    assert (folder / "trips.csv").read_bytes() == sample.stdout
    done = spojoin(folder, "run", "q.yaml", "-i", "trips=-", "-o", "-", "-q", data=sample.stdout)
    assert done.returncode == 0
    numbers = [json.loads(line)["seq"] for line in done.stdout.splitlines()]
    assert (numbers[0], numbers) == (0, list(range(len(numbers))))


STATEMENT = (
    "SELECT l.distance, r.air_time FROM '-' AS l JOIN '-' AS r ON l.distance > r.distance "
    "WINDOW AS (SLIDE INTERVAL '1' ON '1K')"
)
SIGPIPE_STATUS = 141


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", STATEMENT],
        ["sql", STATEMENT, "--format", "csv"],
        ["sql", STATEMENT, "--format", "arrow"],
        ["run", "q.yaml", "-i", "trips=-", "-o", "-", "-q"],
        ["sample", "-"],
    ],
)
def test_a_reader_that_ends_ends_the_command_without_a_word(folder, arguments):
    text = "distance,air_time\n" + "".join(f"{a % 97},{a % 89}\n" for a in range(20_000))
    (folder / "input.csv").write_text(text)
    command = [sys.executable, "-m", "spojoin.cli.main", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (
        (folder / "input.csv").open("rb") as data,
        subprocess.Popen(command, cwd=folder, stdin=data, **pipes) as process,
    ):
        assert process.stdout.read(10)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(120)) == (b"", SIGPIPE_STATUS)


def test_another_pipe_whose_reader_ends_is_an_error(folder):
    os.mkfifo(folder / "pipe")
    (folder / "trips.csv").write_text("distance,air_time\n" + "".join(f"{a % 97},{a % 89}\n" for a in range(20_000)))
    command = [sys.executable, "-m", "spojoin.cli.main", "run", "q.yaml", "-i", "trips=trips.csv", "-o", "pipe"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with (folder / "pipe").open("rb") as reader:
            assert reader.read(10)
        said = process.stderr.read().decode()
        assert process.wait(120) == 2
    assert "spojoin: the program that reads the output has ended\n" in said


def test_a_column_that_turns_behind_the_first_rows_ends_with_status_1(folder):
    (folder / "t.csv").write_text("id,x\n" + "".join(f"{n},{n}\n" for n in range(25_000)) + "0,1.5\n")
    statement = "SELECT l.id, r.id AS other FROM 't.csv' AS l JOIN 't.csv' AS r ON l.x > r.x AND l.x < r.x + 2"
    for around in ("", " ORDER BY l.id"):
        done = spojoin(folder, "sql", statement + around, "-o", "out.jsonl")
        assert done.returncode == 1, done.stderr
        assert b"--schema x=double" in done.stderr
        assert not (folder / "out.jsonl").exists()
