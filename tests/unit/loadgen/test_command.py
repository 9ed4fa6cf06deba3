"""The command: help that teaches, mistakes in one sentence, and a run over a log in memory."""

import json
import subprocess
import sys
from itertools import pairwise

import orjson
import pytest
from typer.testing import CliRunner

from loadgen.__main__ import app, main
from loadgen.chaos import session
from loadgen.chaos.session import Request
from loadgen.load import produce as producing
from loadgen.load.arrivals import Arrivals
from loadgen.load.feed_commands import feed_app
from loadgen.load.load import Load
from loadgen.load.load_streams import LOADS
from loadgen.load.open_loop import WriterSender
from loadgen.load.produce import produce, settled, table
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog

COMMANDS = [[c.name or c.callback.__name__] for c in app.registered_commands]
COMMANDS += [["feed", c.name] for c in feed_app.registered_commands]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_shows_an_example_of_itself(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"loadgen {' '.join(command)}" in " ".join(result.output.split())


def test_help_comes_without_loading_what_runs_commands():
    code = "import sys, loadgen.__main__; print([m for m in ('numba', 'pyspark', 'plotly') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_workloads_are_listed_for_people_and_machines():
    people, machines = invoke("workloads"), json.loads(invoke("workloads", "--json").output)
    assert all(name in people.output for name in LOADS)
    assert machines["q1"] == {"query": "q1.yaml", "streams": ["yellow", "green"], "about": LOADS["q1"].about}


def test_a_dry_campaign_only_prints_its_schedule():
    one, again = (invoke("chaos", "--workload", "q3", "--seed", 7, "--dry-run").output for _ in range(2))
    assert one == again
    assert one != invoke("chaos", "--workload", "q3", "--seed", 8, "--dry-run").output
    times = [float(line.split()[0]) for line in one.splitlines()]
    assert times == sorted(times)
    assert "mutable-1" in one
    late = invoke("chaos", "--workload", "q3", "--seed", 7, "--dry-run", "--settle", "20s").output
    assert 20 <= float(late.split()[0]) < 21
    assert not invoke("chaos", "--workload", "q3", "--seed", 7, "--dry-run", "--kinds", "none").output.strip()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["produce", "--workload", "q3", "--duration", "soon"], "'soon' is no duration"),
        (["produce", "--workload", "q3", "--topic", "rows=here"], "--topic rows: q3 has the streams racks"),
        (["produce", "--workload", "q3", "--kafka", "linger"], "--kafka linger: expected the form name=value"),
        (["produce", "--workload", "q3", "--duration", "forever", "--via", "spark"], "needs an end"),
        (["ramp", "--workload", "q3", "--measure", "forever"], "can't last for ever"),
        (["chaos", "--workload", "q3", "--kinds", "kill,drown"], "--kinds drown: there is no such fault"),
        (["chaos", "--workload", "q3", "--bootstrap", "kafka:9092"], "locally Kafka is started, too"),
        (["chaos", "--workload", "q3", "--topic", "racks=here"], "those started here read in.<stream>"),
        (["chaos", "--workload", "q3", "--query", LOADS["q1"].query_path], "but q3 sends racks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_one_sentence(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(session, "_log_of", None)  # no mistake needs Kafka to be found
    monkeypatch.setattr(producing, "settled", None)
    monkeypatch.setattr(sys, "argv", ["loadgen", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("loadgen: ")
    assert said in lines[0]


def request(**options):
    usual = {
        "workload": "q1",
        "rate": 5_000.0,
        "duration": "2s",
        "partitions": None,
        "message": "arrow",
        "batch_rows": None,
        "seed": 1,
        "first": 0,
        "on_share": None,
        "period_s": 2.0,
        "topics": None,
    }
    return Request(**{**usual, **options})


def test_options_become_a_load():
    load = request(topics=["green=g"], first=9).load()
    assert (load.rows, load.first, load.seed) == (5_000, 9, 1)
    assert [load.topic_of(name) for name in ("yellow", "green")] == ["in.yellow", "g"]
    assert request(duration="forever").load().rows is None
    assert request(workload="bursty").load().arrivals == Arrivals(5_000.0, 0.25)
    assert request(workload="bursty", on_share=1.0).load().arrivals == Arrivals(5_000.0)
    assert request(message="json", batch_rows=7).load().batch_rows is None


def test_topics_are_made_or_taken_as_they_are():
    log = MemoryLog()
    log.create_topics({"in.yellow": 4})
    load = request().load()
    assert settled(log, load, None).partitions == 1
    assert log.partitions("in.green") == 1
    log.create_topics({"in.green": 4})
    assert settled(log, load, None).partitions == 4
    assert settled(log, load, 3).partitions == 3
    assert log.partitions("in.yellow") == 4
    with pytest.raises(ConfigurationError, match=r"--partitions 5: the topic in\.yellow has 4"):
        settled(log, load, 5)


def test_topics_that_are_made_keep_what_is_asked_for(monkeypatch):
    log, made = MemoryLog(), []
    monkeypatch.setattr(log, "create_topics", lambda *given: (made.append(given), MemoryLog.create_topics(log, *given)))
    settled(log, request().load(), 2, 1 << 30)
    assert made == [({"in.yellow": 2, "in.green": 2}, 1 << 30)]


def test_what_was_sent_is_told():
    log = MemoryLog()
    load = settled(log, Load(LOADS["q1"], Arrivals(20_000.0), rows=500, batch_rows=50), 2)
    seen = []
    produced = produce(load, WriterSender(log.writer()), lambda _: None, lambda loop: seen.append(loop.rows))
    assert (produced.rows, produced.messages) == (1_000, 20)
    assert len(log.records(LogPartition("in.green", 1))) == 5
    times = [record.timestamp_ms for record in log.records(LogPartition("in.green", 0))]
    assert all(b - a in (9, 10, 11) for a, b in pairwise(times)), "100 rows of each stream apart"
    told = produced.as_json()
    assert told["streams"]["green"]["rows"] == 500
    assert orjson.dumps(told)
    assert told["streams"]["green"]["sha256"][:16] in "".join(map(str, table(produced).columns[1].cells))
    assert seen
