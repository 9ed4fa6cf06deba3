import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from spojoin.cli.main import app

QUERY = """
name: higher
streams:
  s: {schema: {a: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
COMMANDS = [command.callback.__name__ for command in app.registered_commands]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "s.csv").write_text("a\n2\n1\n3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_of_itself(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"spojoin {command}" in " ".join(result.output.split())


def test_help_comes_without_loading_what_runs_queries():
    code = "import sys, spojoin.cli.main; print([m for m in ('numba', 'pyarrow', 'pyspark') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_run_writes_results_and_a_report(folder):
    result = invoke("run", "q.yaml", "-i", "s=s.csv", "-o", "out.jsonl", "--report", "report.json")
    assert result.exit_code == 0, result.output
    matches = [json.loads(line)["matches"] for line in (folder / "out.jsonl").read_text().splitlines()]
    assert matches == [0, 1, 2]
    assert json.loads((folder / "report.json").read_text())["matches"] == 3


def test_a_run_by_several_workers_tells_what_they_cost(folder):
    asked = ("run", "q.yaml", "-i", "s=s.csv", "-o", "out.jsonl")
    assert "messages a tuple" not in invoke(*asked).output
    for layout in ("batch", "scale_join"):
        shown = invoke(*asked, "--workers", "2", "--layout", layout).output
        assert f"{layout}, 2 workers" in shown
        assert ["messages", "a", "tuple", "2.0"] in [line.replace("│", " ").split() for line in shown.splitlines()]


def test_quiet_says_nothing(folder):
    result = invoke("run", "q.yaml", "-i", "s=s.csv", "-o", "out.jsonl", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_validate_and_explain(folder):
    assert "higher: the query is valid" in invoke("validate", "q.yaml").output
    result = invoke("explain", "q.yaml", "--sample", "s.csv")
    assert result.exit_code == 0, result.output
    assert "l.a > r.a" in result.output
    assert "50 %" in result.output  # of the six ordered pairs of different rows three hold


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["validate", "none.yaml"], "query file none.yaml can't be read"),
        (["validate", "bad.yaml"], "line 5: "),
        (["run", "q.yaml", "-i", "s.csv", "-o", "x.jsonl"], "--input s.csv: expected STREAM=FILE"),
        (["run", "q.yaml", "-i", "t=s.csv", "-o", "x.jsonl"], "the query has no stream 't', it has s"),
        (["run", "q.yaml", "-i", "s=none.csv", "-o", "x.jsonl"], "none.csv: no such file"),
        (["run", "q.yaml", "-i", "s=s.csv", "-o", "x.xls"], "can't tell the format to write"),
        (["run", "q.yaml", "-i", "s=s.csv", "-i", "s=s.csv", "-o", "x.jsonl"], "has a file already"),
        (["run", "q.yaml", "-i", "s=s.csv", "-o", "no/folder/x.jsonl"], "no such file or folder"),
        (["explain", "q.yaml", "--sample", "other=s.csv"], "no such file"),
        (["service", "rooter"], "there is no service 'rooter'; expected one of router, "),
        (["up", "q.yaml", "--results", "xml"], "--results xml: expected one of frames, json"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(folder, arguments, sentence):
    (folder / "bad.yaml").write_text(QUERY.replace("l.a > r.a", "l.x > r.a"))
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("SPOJOIN_FRAME_TUPLES", "setting frame_tuples is 'abc'"),
        ("SPOJOIN_FRAME_TUPLSE", "is no setting: did you mean"),
    ],
)
def test_what_services_would_refuse_ends_up_before_anything_starts(folder, monkeypatch, name, sentence):
    monkeypatch.setattr("spojoin.cli.up.Children", lambda: pytest.fail("something starts"))
    monkeypatch.setenv(name, "abc")
    result = invoke("up", "q.yaml")
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_debug_shows_where(folder):
    result = invoke("validate", "none.yaml", "--debug")
    assert "none.yaml" in str(result.exception)


def test_a_full_disk_is_one_sentence(folder):
    """/dev/full takes nothing, as a full disk does."""
    (folder / "full.jsonl").symlink_to("/dev/full")
    result = invoke("run", "q.yaml", "-i", "s=s.csv", "-o", "full.jsonl")
    assert result.exit_code == 2
    assert "the disk is full" in result.stderr
