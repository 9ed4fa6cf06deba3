import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from spojoin.cli.main import LOADGEN_COMMANDS, app
from spojoin.embedded.refusal_report import RUN, refused_line
from spojoin.query.load import parse_query

QUERY = """
name: higher
streams:
  s: {schema: {a: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
COMMANDS = [command.callback.__name__.replace("_", "-") for command in app.registered_commands]


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


@pytest.mark.parametrize("command", LOADGEN_COMMANDS)
def test_a_command_of_the_load_generator_is_named_with_its_installation(command):
    shown = invoke(command, "--anything")
    assert shown.exit_code == 2
    said = " ".join(shown.stderr.replace("│", " ").split())
    assert f"pip install spojoin-loadgen, then: loadgen {command}" in said


def test_help_loads_nothing_that_runs_queries():
    code = "import sys, spojoin.cli.main; print([m for m in ('numba', 'pyarrow', 'pyspark') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_schema_of_a_file_is_printed_as_a_query_takes_it(folder):
    (folder / "rows.jsonl").write_text('{"price": 1.5, "a b": 1, "at": "2024-02-29T12:00:00Z", "tags": [1]}\n')
    shown = invoke("schema", "rows.jsonl")
    assert shown.exit_code == 0, shown.output
    printed = "".join(f"    {line}\n" for line in shown.output.splitlines())
    text = QUERY.replace("  s: {schema: {a: int}}\n", f"  s:\n{printed}").replace("l.a > r.a", "l.price > r.price")
    types = {name: str(kind) for name, kind in parse_query(text).streams[0].schema.items()}
    assert types == {"price": "double", "a b": "long", "at": "timestamptz"}
    assert "# column 'tags' holds objects or arrays" in shown.output


def test_run_writes_results_and_a_report(folder):
    result = invoke("run", "q.yaml", "-i", "s=s.csv", "-o", "out.jsonl", "--report", "report.json")
    assert result.exit_code == 0, result.output
    matches = [json.loads(line)["matches"] for line in (folder / "out.jsonl").read_text().splitlines()]
    assert matches == [0, 1, 2]
    assert json.loads((folder / "report.json").read_text())["matches"] == 3


def test_a_run_by_several_workers_reports_what_they_cost(folder):
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
    assert "50 %" in result.output  # of the six ordered pairs of different rows, three match


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["validate", "none.yaml"], "query file none.yaml can't be read"),
        (["validate", "bad.yaml"], "line 5, column 42: "),
        (["run", "q.yaml", "-i", "s.csv", "-o", "x.jsonl"], "--input s.csv: expected STREAM=FILE"),
        (["run", "q.yaml", "-i", "t=s.csv", "-o", "x.jsonl"], "the query has no stream 't', it has s"),
        (["run", "q.yaml", "-i", "s=none.csv", "-o", "x.jsonl"], "none.csv: no such file"),
        (["run", "q.yaml", "-i", "s=s.csv", "-o", "x.xls"], "can't tell the format to write"),
        (["run", "q.yaml", "-i", "s=s.csv", "-i", "s=s.csv", "-o", "x.jsonl"], "has a file already"),
        (["run", "q.yaml", "-i", "s=s.csv", "-o", "no/folder/x.jsonl"], "there is no folder no/folder; make it"),
        (["explain", "q.yaml", "--sample", "other=s.csv"], "no such file"),
        (["service", "rooter"], "unknown role 'rooter': expected router, "),
        (["up", "q.yaml", "--results", "xml"], "--results xml: expected frames, json, avro or json-schema"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(folder, arguments, sentence):
    (folder / "bad.yaml").write_text(QUERY.replace("l.a > r.a", "l.x > r.a"))
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["-o", "--rejects", "--report"])
@pytest.mark.parametrize("target", ["s.jsonl", "./s.jsonl", "link.jsonl", "q.json", "out.jsonl"])
def test_no_output_overwrites_an_input_the_query_or_another_output(folder, option, target):
    (folder / "s.jsonl").write_text('{"a": 1}\n')
    (folder / "link.jsonl").symlink_to("s.jsonl")
    (folder / "q.json").write_text(QUERY)
    (folder / "out.jsonl").write_text("earlier\n")
    outputs = {"-o": "out.jsonl", "--rejects": "r.jsonl", "--report": "report.json"} | {option: target}
    if target == "out.jsonl":
        outputs |= {"-o": target, "--rejects": target}
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = invoke("run", "q.json", "-i", "s=s.jsonl", *[word for pair in outputs.items() for word in pair])
    assert result.exit_code == 2
    assert "names the same file as" in result.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


LATE_QUERY = """
name: timed
streams:
  s: {schema: {a: int}, time: ms}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '10 s')
order: event_time
"""


def write_late_rows(folder, late, rows):
    """`rows` rows, of which `late` come 1,500 ms after a later one."""
    lines = [f"{i},{5_000 + i}" for i in range(rows - late)] + [
        f"{i},{5_000 + rows - late - 1_501}" for i in range(late)
    ]
    (folder / "late.csv").write_text("a,ms\n" + "\n".join(lines) + "\n")
    (folder / "late.yaml").write_text(LATE_QUERY + "lateness: 1 ms\n")


@pytest.mark.parametrize(("late", "limit", "status"), [(5, (), 0), (6, (), 1), (6, ("--max-rejects", "60%"), 0)])
def test_refused_rows_are_one_line_even_in_quiet_and_too_many_are_status_1(folder, late, limit, status):
    write_late_rows(folder, late, 10)
    result = invoke("run", "late.yaml", "-i", "s=late.csv", "-o", "out.jsonl", "-q", *limit)
    assert result.exit_code == status
    first, *more = result.stderr.splitlines()
    assert first.startswith(
        f"spojoin: {late} of 10 rows refused: {late} late (first: s, position {10 - late}: event time"
    )
    assert "say 'lateness: 1500 ms' in the query" in first
    assert len(more) == status
    assert all(f"out.jsonl holds the results of the other {10 - late}" in line for line in more)
    assert len((folder / "out.jsonl").read_text().splitlines()) == 10 - late


@pytest.mark.parametrize(("late", "limit", "status"), [(5, (), 0), (6, (), 1), (6, ("--max-rejects", "60%"), 0)])
def test_a_statement_alone_has_the_same_limit_and_says_so_in_its_own_words(folder, late, limit, status):
    write_late_rows(folder, late, 10)
    statement = (
        "SELECT l.a FROM 'late.csv' AS l JOIN 'late.csv' AS r ON l.a > r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '9 s')"
    )
    result = invoke("sql", statement, "--time", "ms", "--lateness", "1 ms", "-o", "out.jsonl", *limit, "-q")
    assert result.exit_code == status
    first, *more = result.stderr.splitlines()
    assert f"{late} of 10 rows refused" in first
    assert "say --lateness '1500 ms'" in first
    assert len(more) == status
    assert all(f"out.jsonl holds the results of the other {10 - late}" in line for line in more)


def test_the_suggested_lateness_accepts_all_rows(folder):
    write_late_rows(folder, 4, 10)
    (folder / "late.yaml").write_text(LATE_QUERY + "lateness: 1500 ms\n")
    assert invoke("run", "late.yaml", "-i", "s=late.csv", "-o", "out.jsonl", "-q").stderr == ""
    (folder / "late.yaml").write_text(LATE_QUERY + "lateness: 1499 ms\n")
    assert "4 of 10 rows refused" in invoke("run", "late.yaml", "-i", "s=late.csv", "-o", "out.jsonl", "-q").stderr


def test_all_rows_refused_is_status_1_whatever_the_limit(folder):
    (folder / "none.csv").write_text("a\nx\ny\n")
    result = invoke(
        "run", "q.yaml", "-i", "s=none.csv", "-o", "out.jsonl", "--max-rejects", "100%", "--rejects", "r.jsonl"
    )
    assert result.exit_code == 1
    assert "all rows were refused: out.jsonl is empty; r.jsonl holds the refused rows" in result.stderr
    assert len((folder / "r.jsonl").read_text().splitlines()) == 2


def test_the_line_about_refused_rows_names_the_commonest_reasons():
    query = parse_query(QUERY)
    counts = {"null": 2, "type": 40, "nan": 1, "overflow": 1_003}
    report = {
        "rejected": 1_046,
        "rows": 1_046,
        "rejected_by_reason": counts,
        "rejected_first": {"type": "s, position 3: no"},
    }
    assert refused_line(report, query, RUN) == (
        "1,046 of 1,046 rows refused: 1,003 overflow, 40 type (first: s, position 3: no), 2 null, 1 for other reasons"
    )
    assert refused_line({"rejected": 0}, query, RUN) is None


def test_a_count_window_may_take_late_rows_in_order_of_arrival():
    query = parse_query(LATE_QUERY.replace("'1 s' ON '10 s'", "'1' ON '10'"))
    report = {
        "rejected": 1,
        "rows": 10,
        "rejected_by_reason": {"late": 1},
        "rejected_first": {},
        "late_by_us": 7_200_000_000,
    }
    line = refused_line(report, query, RUN)
    assert "lateness: 2 hours" in line
    assert "or say 'order: arrival'" in line


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_file_that_looks_complete(folder, number, status):
    (folder / "out.parquet").write_text("earlier")
    (folder / "long.csv").write_text("a\n" + "x\n" * 200_000 + "1\n" * 5_000_000)
    command = ["run", "q.yaml", "-i", "s=long.csv", "-o", "out.parquet", "--rejects", "refused.jsonl", "-q"]
    child = subprocess.Popen([sys.executable, "-m", "spojoin.cli.main", *command], stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not any(path.stat().st_size for path in folder.glob("refused.jsonl.*.partial")):
        time.sleep(0.01)
    child.send_signal(number)
    said = child.communicate()[1]
    assert child.returncode == status
    assert "out.parquet stays as it was before; refused.jsonl was not written" in said
    assert "Traceback" not in said
    assert sorted(path.name for path in folder.iterdir()) == ["long.csv", "out.parquet", "q.yaml", "s.csv"]
    assert (folder / "out.parquet").read_text() == "earlier"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("SPOJOIN_FRAME_TUPLES", "setting frame_tuples is 'abc'"),
        ("SPOJOIN_FRAME_TUPLSE", "is no setting: did you mean"),
    ],
)
def test_up_refuses_what_services_would_refuse_before_it_starts_anything(folder, monkeypatch, name, sentence):
    monkeypatch.setattr("spojoin.cli.up.Children", lambda: pytest.fail("something starts"))
    monkeypatch.setenv(name, "abc")
    result = invoke("up", "q.yaml")
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_debug_shows_where(folder):
    result = invoke("validate", "none.yaml", "--debug")
    assert "none.yaml" in str(result.exception)


def test_a_full_disk_is_one_sentence(folder):
    """/dev/full refuses every write, like a full disk."""
    (folder / "full.jsonl").symlink_to("/dev/full")
    result = invoke("run", "q.yaml", "-i", "s=s.csv", "-o", "full.jsonl")
    assert result.exit_code == 2
    assert "the disk is full" in result.stderr
