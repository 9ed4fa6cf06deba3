"""The chart's backfill: a Job, or a SparkApplication where the cluster knows it, with the same arguments."""

import json

import pytest

from spojoin.protocol.access import Person
from tests.support.chart import FULLNAME, manifests, named, of_kind, pods, render, template

ASKED = (
    "backfill.enabled=true",
    "backfill.from.pickups=/data/pickups",
    "backfill.from.Drop_offs=s3a://lake/drops",
    "backfill.output=/data/pairs",
    "backfill.until=began",
    "backfill.claim=lake",
)
ARGUMENTS = [
    "backfill",
    "/etc/spojoin/query/query.yaml",
    "--from=Drop_offs=s3a://lake/drops",
    "--from=pickups=/data/pickups",
    "--output=/data/pairs",
    "--until=began",
    "--format=parquet",
    "--mode=error",
]
EXECUTORS = ("backfill.operator=true", "backfill.env[0].name=AWS_PROFILE", "backfill.env[0].value=lake")


def application(*settings):
    (found,) = of_kind("SparkApplication", manifests("operators", *ASKED, *EXECUTORS, *settings))
    return found


def test_without_being_asked_for_there_is_none():
    assert "backfill" not in pods(manifests("operators"))
    assert of_kind("SparkApplication", manifests("operators")) == []


def test_one_pod_does_it_on_all_its_cores():
    pod = pods(manifests("operators", *ASKED, "backfill.orderBy=seq"))["backfill"]
    assert (pod.kind, pod.container["command"]) == ("Job", ["/opt/spojoin/bin/spojoin"])
    assert pod.container["args"] == [*ARGUMENTS[:6], "--order-by=seq", *ARGUMENTS[6:], "--master=local[*]"]
    assert {"name": "history", "mountPath": "/data"} in pod.container["volumeMounts"]
    assert {"name": "history", "persistentVolumeClaim": {"claimName": "lake"}} in pod.spec["volumes"]
    assert pod.owner["spec"]["backoffLimit"] == 0


def test_it_reads_kafka_as_the_user_who_may_read_inputs_and_generations():
    pod = pods(manifests("operators", *ASKED))["backfill"]
    assert pod.variables["SPOJOIN_KAFKA_USERNAME"] == f"{FULLNAME}-{Person.CHECK.value}"


def test_the_arguments_are_options_of_the_command():
    from spojoin.cli.commands.backfill import backfill

    options = set(backfill.__signature__.parameters)
    given = [each for each in ARGUMENTS if each.startswith("--")]
    named_ = {each[2:].split("=")[0].replace("-", "_") for each in [*given, "--order-by=x", "--master=x", "--conf=x"]}
    assert named_ - {"from"} <= options


@pytest.mark.parametrize("number", ["3000000000", "0"])
def test_a_number_is_handed_on_as_it_is(number, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(f"backfill: {{until: {number}}}")
    asked = [part for each in (*ASKED[:-2], "demo.enabled=true") for part in ("--set", each)]
    (job,) = [each for each in of_kind("Job", render("--values", values, *asked)) if "-backfill-" in str(each)]
    assert f"--until={number}" in json.dumps(job)


def test_executors_do_it_where_the_operator_is_asked_for():
    found = application("backfill.conf.spark\\.jars\\.packages=org.apache.hadoop:hadoop-aws:3.4.1")
    spec = found["spec"]
    assert spec["arguments"] == ARGUMENTS
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert spec["sparkConf"] == {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1"}
    assert spec["executor"]["instances"] == 2
    assert "backfill" not in pods(manifests("operators", *ASKED, *EXECUTORS))


def test_executors_have_the_history_and_no_secret_of_kafka():
    spec = application()["spec"]
    mounted = {each["mountPath"] for each in spec["executor"]["volumeMounts"]}
    assert mounted == {"/tmp", "/data"}
    assert spec["executor"]["env"] == [{"name": "AWS_PROFILE", "value": "lake"}]
    assert "SPOJOIN_KAFKA_PASSWORD" in {each["name"] for each in spec["driver"]["env"]}


def test_the_driver_may_make_pods():
    documents = manifests("operators", *ASKED, *EXECUTORS)
    account = application()["spec"]["driver"]["serviceAccount"]
    binding = named(documents, "RoleBinding", "backfill")
    assert (
        binding["subjects"][0]["name"] == account == named(documents, "ServiceAccount", "backfill")["metadata"]["name"]
    )
    assert "pods" in named(documents, "Role", "backfill")["rules"][0]["resources"]


def test_driver_and_executors_reach_each_other_and_any_store():
    policy = named(manifests("operators", *ASKED, *EXECUTORS), "NetworkPolicy", "backfill")["spec"]
    assert policy["egress"] == [{}]
    (rule,) = policy["ingress"]
    assert rule["from"][0]["podSelector"] == policy["podSelector"]
    assert "ingress" not in named(manifests("operators", *ASKED), "NetworkPolicy", "backfill")["spec"]


def test_without_the_operator_it_is_left_out():
    asked = [part for each in (*ASKED, *EXECUTORS, "demo.enabled=true") for part in ("--set", each)]
    assert of_kind("SparkApplication", render(*asked, versions=())) == []


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("backfill.output=", "backfill.output is empty: name the folder of results"),
        ("backfill.mode=ignore", "backfill.mode"),
        ("backfill.form=x", "Additional property form is not allowed"),
    ],
)
def test_what_is_missing_or_wrong_is_said(setting, sentence):
    asked = [part for each in (*ASKED, "demo.enabled=true", setting) for part in ("--set", each)]
    done = template(*asked)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_other_values_are_another_object():
    assert application()["metadata"]["name"] != application("backfill.mode=append")["metadata"]["name"]
