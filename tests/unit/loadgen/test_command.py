"""The command: help with examples, mistakes in one sentence, and a run over a log in memory."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from loadgen.__main__ import app, main
from loadgen.chaos.chaos_file import ChaosFile
from loadgen.chaos.plan import FaultKind
from loadgen.engines.commands import engines_app
from loadgen.load import produce as producing
from loadgen.load.connection import Connection
from loadgen.load.feed_commands import feed_app
from loadgen.load.files import read
from loadgen.load.load import Arrivals
from loadgen.load.load_file import ProduceFile, RampFile
from loadgen.load.load_streams import LOADS
from loadgen.load.produce import settled
from spojoin.errors import ConfigurationError
from spojoin.ports.memory import MemoryLog

COMMANDS = [[c.name or c.callback.__name__] for c in app.registered_commands]
COMMANDS += [["feed", c.name] for c in feed_app.registered_commands]
COMMANDS += [["engines", c.name] for c in engines_app.registered_commands]
FILES = {"produce": ProduceFile, "ramp": RampFile, "chaos": ChaosFile}


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_shows_an_example_of_itself(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"loadgen {' '.join(command)}" in " ".join(result.output.split())


def test_help_loads_nothing_that_runs_commands():
    code = "import sys, loadgen.__main__; print([m for m in ('numba', 'pyspark', 'plotly') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_dry_campaign_only_prints_its_schedule():
    one, again = (invoke("chaos", "--workload", "q3", "--seed", 7, "--dry-run").output for _ in range(2))
    assert one == again
    assert "mutable-1" in one


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["produce", "--workload", "q3", "--duration", "soon"],
            "--duration is 'soon'; expected a duration such as 90s",
        ),
        (["produce", "--workload", "q3", "--rate", 0], "--rate is 0.0; expected a number greater than or equal to 0.1"),
        (["produce"], "workload is missing"),
        (["produce", "{workload: q9}"], "workload is 'q9'; expected 'q1', 'q2'"),
        (
            ["produce", "{workload: q3, rows: {topics: {rows: here}}}"],
            "rows.topics names 'rows'; expected some of racks",
        ),
        (["produce", "{workload: q3, kafka: linger}"], "kafka is 'linger'; expected a valid dictionary"),
        (["produce", "--workload", "q3", "--duration", "forever", "--via", "spark"], "needs an end"),
        (["ramp", "{workload: q3, measure: forever}"], "measure is 'forever'; expected a duration that ends"),
        (["ramp", "{workload: q3, rows: {batches: 5}}"], "rows.batches is unknown; expected one of format, batch_rows"),
        (["ramp", "{workload: q3, services: {query: no.yaml}}"], "expected the path of a file that exists"),
        (["chaos", "--workload", "q3", "--kinds", "kill,drown"], "--kinds is 'drown'; expected 'delete', 'kill'"),
        (["chaos", "{workload: q3, bootstrap: 'kafka:9092'}"], "Kafka is started for those started here"),
        (["chaos", "{workload: q3, rows: {topics: {racks: r}}}"], "those started here read in.<stream>"),
        (["chaos", f"{{workload: q3, services: {{query: {LOADS['q1'].query_path}}}}}"], "but q3 sends racks"),
        (["chaos", "no-such-file.yaml"], "no-such-file.yaml: no such file or folder"),
        (["chaos", "{workload: [}"], "is no YAML"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_one_sentence(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(Connection, "log", None)  # finding these mistakes needs no Kafka
    monkeypatch.setattr(producing, "settled", None)
    monkeypatch.setattr(sys, "argv", ["loadgen", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("loadgen: ")
    assert said in lines[0]


@pytest.mark.parametrize("command", FILES)
def test_the_example_file_explains_each_default(command, tmp_path):
    shown = invoke(command, "--schema").output
    (tmp_path / "all.yaml").write_text(shown)
    assert read(FILES[command], str(tmp_path / "all.yaml"), {}) == FILES[command](workload="q3")
    lines = shown.splitlines()
    fields = [number for number, line in enumerate(lines) if not line.lstrip().startswith("#")]
    assert all(lines[number - 1].lstrip().startswith("# ") for number in fields)
    assert "None" not in shown


def test_options_override_the_file(tmp_path):
    path = tmp_path / "campaign.yaml"
    path.write_text("workload: q3\nseed: 5\nkinds: [kill]\nservices: {settings: {frame_tuples: 256, flag: true}}\n")
    file = read(ChaosFile, str(path), {"seed": 7, "kinds": None})
    assert (file.seed, file.kinds) == (7, (FaultKind.KILL,))
    assert file.services.settings == {"frame_tuples": "256", "flag": "true"}
    assert read(ChaosFile, str(path), {"kinds": "none"}).kinds == ()
    assert read(ChaosFile, str(path), {"kinds": "kill, pause"}).kinds == (FaultKind.KILL, FaultKind.PAUSE)


def test_a_mistake_names_its_file(tmp_path):
    path = tmp_path / "load.yaml"
    path.write_text("workload: q3\nrows: {partitions: 0}\n")
    with pytest.raises(ConfigurationError) as found:
        read(ProduceFile, str(path), {})
    assert str(found.value) == f"{path}: rows.partitions is 0; expected a number greater than or equal to 1"


def load_of(duration="2s", workload="q1", seed=1, **rows):
    return ProduceFile(workload=workload, seed=seed, rows=rows).load(5_000.0, duration)


def test_a_file_becomes_a_load():
    load = load_of(topics={"green": "g"}, first=9)
    assert (load.rows, load.first, load.seed) == (5_000, 9, 1)
    assert [load.topic_of(name) for name in ("yellow", "green")] == ["in.yellow", "g"]
    assert load_of("forever").rows is None
    assert load_of(workload="bursty").arrivals == Arrivals(5_000.0, 0.25)
    assert load_of(workload="bursty", on_share=1.0).arrivals == Arrivals(5_000.0)
    assert load_of(format="json", batch_rows=7).batch_rows is None


def test_topics_are_made_or_used_as_they_are():
    log = MemoryLog()
    log.create_topics({"in.yellow": 4})
    load = load_of()
    assert settled(log, load, None).partitions == 1
    assert log.partitions("in.green") == 1
    log.create_topics({"in.green": 4})
    assert settled(log, load, None).partitions == 4
    assert settled(log, load, 3).partitions == 3
    assert log.partitions("in.yellow") == 4
    with pytest.raises(ConfigurationError, match=r"--partitions 5: the topic in\.yellow has 4"):
        settled(log, load, 5)
