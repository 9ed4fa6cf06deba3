"""The chart's load Jobs hand the load generator files that it accepts, the user's fields merged into the chart's."""

import json

import pytest

from loadgen.chaos.chaos_file import ChaosFile
from loadgen.load.files import read
from loadgen.load.load_file import ProduceFile, RampFile
from tests.support.chart import CHART, NAMESPACE, manifests, pods, render, template

FILES = {"produce": ProduceFile, "ramp": RampFile, "chaos": ChaosFile}
QUERY = "/etc/spojoin/query/query.yaml"


def given(name, *options):
    """What a Job's command line says: the fields of its file, and the options behind it."""
    found = pods(render("--set", f"demo.enabled=true,jobs.{name}.enabled=true", *options))
    command, text, *rest = found[f"job-{name}"].container["args"]
    assert command == name
    return text, rest


@pytest.mark.parametrize("name", FILES)
def test_the_load_generator_accepts_what_the_chart_hands_it(name):
    text, options = given(name)
    # The query file exists in the pod only.
    text = text.replace(QUERY, str(CHART / "files/demo-query.yaml"))
    asked = dict(zip(options[::2], options[1::2], strict=True))
    file = read(FILES[name], text, {option.removeprefix("--"): value for option, value in asked.items()})
    assert file.workload.value == "q3"


def test_the_demo_sends_what_its_values_request():
    wanted = ("demo.rate=300", "demo.partitions=3", "demo.inputBytesMax=5000000000")
    program, text = pods(manifests("demo", *wanted))["load"].container["args"]
    file = read(ProduceFile, text, {})
    assert (program, file.workload.value, file.duration, file.rate) == ("produce", "q3", "forever", 300)
    assert (file.rows.partitions, file.retention_bytes) == (3, 5_000_000_000)


def test_fields_of_the_user_are_merged_into_those_of_the_chart():
    text, options = given("chaos", "--set-json", 'jobs.chaos.file={"pods":{"delete_broker":true},"every":"9s"}')
    found = json.loads(text)
    assert found["pods"] == {"namespace": NAMESPACE, "release": "demo", "delete_broker": True}
    assert (found["every"], found["where"], found["services"]["query"]) == ("9s", "kubernetes", QUERY)
    assert found["kinds"] == "delete,broker,redis"
    assert options[:2] == ["--workload", "q3"]


@pytest.mark.parametrize(
    "chosen", [["--set-json", 'jobs.chaos.file={"kinds":["kill"]}'], ["--set", "jobs.chaos.args={--kinds,kill}"]]
)
def test_kinds_that_the_user_names_are_kept(chosen):
    text, options = given("chaos", *chosen)
    assert (json.loads(text).get("kinds"), options[:2]) in (
        (["kill"], ["--workload", "q3"]),
        (None, ["--kinds", "kill"]),
    )


def test_a_job_without_a_file_gets_none():
    done = template("--set", "demo.enabled=true", "--set-json", 'jobs.check.file={"seed":1}')
    assert done.returncode != 0
    assert "jobs" in done.stderr
