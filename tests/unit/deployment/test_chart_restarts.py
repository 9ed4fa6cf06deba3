"""What a change restarts: the pods that read it, and no others."""

import json
import shutil

import pytest

from spojoin.protocol.topology import MACHINE_ROLES, ROLES, Role
from spojoin.runtime.setting_readers import PAGE, READERS, SHARED
from spojoin.runtime.settings import Settings
from tests.support.chart import CHART, WITH_ALL, pods, render, values_file

#: Another value of each setting that `settings` may hold.
CHANGED = {
    "threads": 3,
    "input_topics": '{"trips": "elsewhere"}',
    "transactions": "false",
    "router_transactions": "true",
    "compression": "lz4",
    "results_format": "json",
    "results_bytes_max": 1 << 30,
    "frame_tuples": 512,
    "linger_ms": 7,
    "batch_tuples": 512,
    "batch_frames": 9,
    "handover_frames": 3,
    "credits_frames": 99,
    "stall_ms_max": 30_000,
    "scale_cpu_high": 0.9,
    "scale_cpu_low": 0.1,
    "scale_lag_high": 9,
    "scale_up_after_s": 9,
    "scale_down_after_s": 9,
    "scale_wait_s_max": 9,
    "log_level": "debug",
}
#: Settings that other values of the chart say, and those that are no matter of the chart's.
BY_OTHER_VALUES = {
    *(
        "query_file",
        "intake",
        "intakes",
        "joiner",
        "joiners",
        "logical_and",
        "logical_ands",
        "sink",
        "sinks",
        "worker",
        "workers",
    ),
    *("workers_max", "packing", "standbys", "instance", "columns", "columns_by", "patience_ms", "workers_inside"),
    *("bootstrap_servers", "replace", "backfill", "drain_ms"),
    *("statefulset", "namespace", "autoscale", "scale_once", "scale_min", "scale_max", "redis_url", "metrics_host"),
    *(f"{server}_{part}" for server in ("kafka", "redis", "registry") for part in ("username", "password")),
    *(f"{server}_password_file" for server in ("kafka", "redis", "registry")),
    *("metrics_port", "owner", "adopt", "topics", "kafka", "registry_url", "registry_ca", "secrets_folders"),
}
#: What judges a query, and what shows it; the other services follow.
JUDGING = {Role.ROUTER, Role.CONTROLLER, PAGE}


def templates(*options, chart=CHART, example="production"):
    found = pods(render("--values", values_file(example), "--set", WITH_ALL, *options, chart=chart))
    return {
        name: pod.owner["spec"]["template"] for name, pod in found.items() if pod.kind in ("Deployment", "StatefulSet")
    }


def restarted(before, after):
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_every_setting_has_readers():
    assert all(READERS.values())
    assert {name for entry in ROLES for name in entry.settings} <= Settings.model_fields.keys()
    assert CHANGED.keys() | BY_OTHER_VALUES == READERS.keys()
    assert {reader for readers in READERS.values() for reader in readers} == {*Role, PAGE, SHARED}


@pytest.fixture(scope="module")
def apart():
    return templates()


def test_a_setting_is_in_the_pods_that_read_it_and_in_no_others():
    settings = ("--set", WITH_ALL, "--set-json", f"settings={json.dumps(CHANGED)}")
    found = pods(render("--values", values_file("production"), *settings))
    for setting in CHANGED:
        told = {name for name in {*Role, PAGE} if f"SPOJOIN_{setting.upper()}" in found[name].variables}
        assert told == {*READERS[setting]} - {SHARED}, setting


@pytest.mark.parametrize("setting", ["log_level", "linger_ms", "scale_lag_high", "results_format"])
def test_a_changed_setting_restarts_the_pods_that_read_it(apart, setting):
    changed = templates("--set-json", f"settings.{setting}={json.dumps(CHANGED[setting])}")
    assert restarted(apart, changed) == {*READERS[setting]}


@pytest.mark.parametrize(
    ("setting", "processes"),
    [
        ("threads", {"router-sink", "mutable-logical-and"}),
        ("frame_tuples", {"router-sink"}),
        ("results_format", {"router-sink"}),
        ("scale_up_after_s", {"controller"}),
    ],
)
def test_a_process_of_several_roles_reads_what_one_of_them_reads(setting, processes):
    packing = ("--set", "packing=router+sink mutable+logical-and")
    changed = templates(*packing, "--set", f"settings.{setting}={CHANGED[setting]}")
    assert restarted(templates(*packing), changed) == processes


@pytest.mark.parametrize(
    ("value", "components"),
    [
        ("mutable.replicas=1", {*READERS["joiners"]}),
        ("pojoin.replicas=5", {Role.CONTROLLER}),
        ("pojoin.maxReplicas=9", {*READERS["workers_max"]}),
        ("pojoin.columns=2", {*READERS["columns"]}),
        ("sink.replicas=2", {*READERS["sinks"]}),
        ("pojoin.columnsBy=key", {*READERS["columns_by"]}),
        ("controller.autoscale.minReplicas=2", {Role.CONTROLLER}),
    ],
)
def test_so_does_a_changed_value(apart, value, components):
    assert restarted(apart, templates("--set", value)) == components


@pytest.mark.parametrize(
    ("value", "components"),
    [
        ("query.replace=true", {*READERS["replace"]}),
        ("query.backfill=none", {*READERS["backfill"]}),
        (r"query.tables.tiers\.csv=a", {Role.ROUTER}),
        ("query.others.first=a", JUDGING),
        ("query.text=name: demo\nstreams: {}", JUDGING),
        ("query.text=name: another\nstreams: {}", {*Role, PAGE}),
    ],
)
def test_so_does_what_is_said_of_the_query(value, components):
    before = templates(example="demo")
    assert restarted(before, templates("--set", value, example="demo")) - {"load"} == components


def test_joiners_inside_a_process_have_no_number():
    packing = ("--set", "packing=together")
    assert restarted(templates(*packing), templates(*packing, "--set", "mutable.replicas=1")) == set()


def test_standbys_are_a_matter_of_the_services_that_have_some():
    on = ("--set", "standbys=1")
    changed = restarted(templates(*on), templates(*on, "--set", "patienceMs=900"))
    assert changed == {f"{role}{suffix}" for role in MACHINE_ROLES for suffix in ("", "-b")}


def test_another_version_of_the_chart_restarts_nothing_by_itself(apart, tmp_path):
    chart = tmp_path / "spojoin"
    shutil.copytree(CHART, chart)
    about = chart / "Chart.yaml"
    lines = [line for line in about.read_text().splitlines() if not line.startswith(("version:", "appVersion:"))]
    about.write_text("\n".join([*lines, "version: 99.0.0", 'appVersion: "99.0.0"']))
    tags = [part for image in ("image", "devImage", "sparkImage") for part in ("--set", f"{image}.tag=same")]
    assert restarted(templates(*tags), templates(*tags, chart=chart)) == set()
