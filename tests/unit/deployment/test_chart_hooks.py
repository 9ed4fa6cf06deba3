"""What Helm runs before and beside a release, and what it prints afterwards."""

import re
import shutil

import pytest

from tests.support.chart import CHART, EXAMPLES, manifests, named, notes, of_kind, pods, render, values_file

HOOK, WEIGHT, DELETION = (f"helm.sh/{name}" for name in ("hook", "hook-weight", "hook-delete-policy"))


#: Argo CD takes the first two as its PreSync.
CHECKED = "pre-install,pre-upgrade,pre-rollback"


def annotations(document):
    return document["metadata"].get("annotations", {})


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_query_is_checked_before_anything_runs(example):
    documents = manifests(example)
    text, job = (annotations(named(documents, kind, "check-query")) for kind in ("ConfigMap", "Job"))
    assert text[HOOK] == job[HOOK] == CHECKED
    assert int(text[WEIGHT]) < int(job[WEIGHT]) < 0
    assert job["helm.sh/hook-output-log-policy"] == "hook-failed"
    for each in (text, job):
        assert {"before-hook-creation", "hook-succeeded"} <= set(each[DELETION].split(","))


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_other_object_is_a_hook_but_the_test(example):
    documents = manifests(example)
    hooks = {(each["kind"], each["metadata"]["name"]): annotations(each).get(HOOK) for each in documents}
    checks = {(kind, "demo-spojoin-check-query"): CHECKED for kind in ("ConfigMap", "Job")}
    test = {("Pod", "demo-spojoin-test"): "test"}
    assert {name: hook for name, hook in hooks.items() if hook} == checks | test


@pytest.mark.parametrize(
    ("options", "asks", "said"),
    [
        (("--values", values_file("demo")), "loadgen.check.smoke", "known rows"),
        (("--values", values_file("production")), "--check", "every service that results need runs"),
        (
            (
                "--values",
                values_file("production"),
                "--set",
                "redis.url=,redis.existingSecret=,redis.passwordKey=,redis.username=",
            ),
            "--running",
            "Check in Kafka",
        ),
    ],
)
def test_the_notes_say_what_the_test_does(tmp_path, options, asks, said):
    text, documents = notes(tmp_path, *options)
    container = pods(documents)["test"].container
    assert asks in [*container.get("command", []), *container.get("args", [])]
    assert said in text
    assert ("spojoin status" in text) is (asks != "--running")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_test_leaves_its_log(example):
    about = annotations(named(manifests(example), "Pod", "test"))
    assert about["helm.sh/hook-output-log-policy"] == "hook-succeeded,hook-failed"
    assert about[DELETION] == "before-hook-creation,hook-succeeded"


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_check_that_fails_says_why_in_its_pods_status(example):
    found = pods(manifests(example))
    for name in {"check-query", "topics"} & found.keys():
        assert found[name].container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert found["check-query"].owner["spec"]["ttlSecondsAfterFinished"] == 600


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_check_covers_what_the_chart_makes_instead_of_the_program(example):
    arguments = pods(manifests(example))["check-query"].container["args"][3:]
    named_streams = ["--partials=16", "--named=nearby", "--named=Drop_offs", "--named=pickups"]
    assert [each for each in arguments if "=" in each] == (named_streams if example == "operators" else [])


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("how", [(), ("--is-upgrade",)])
def test_the_check_asks_kafka_each_time_and_does_without_only_what_the_release_brings(example, how):
    """`helm template`, which Argo CD and Flux run, doesn't know whether it is an upgrade."""
    found = pods(render("--values", values_file(example), *how))["check-query"]
    assert found.container["args"][2:4] == ["--deployed", "--running"]
    brings_kafka_or_its_users = {"demo": True, "operators": True, "production": False}
    assert ("--coming" in found.container["args"]) is brings_kafka_or_its_users[example]


@pytest.mark.parametrize(
    ("version", "is_deleted"), [("v3.17.3", False), ("v3.18.0", True), ("v3.18.0-rc.1", True), ("v4.0.1", True)]
)
def test_a_failed_check_leaves_its_job_only_if_helm_cannot_show_its_log(tmp_path, version, is_deleted):
    chart = shutil.copytree(CHART, tmp_path / "spojoin")
    file = chart / "templates/check-query.yaml"
    text = file.read_text()
    assert ".Capabilities.HelmVersion.Version" in text
    file.write_text(text.replace(".Capabilities.HelmVersion.Version", f'"{version}"'))
    job = named(render("--set", "demo.enabled=true", chart=chart), "Job", "check-query")
    assert ("hook-failed" in annotations(job)[DELETION].split(",")) is is_deleted


# --- notes ------------------------------------------------------------------------------------------------------------


def test_objects_of_operators_are_left_out_where_they_are_unknown_and_the_notes_say_so(tmp_path):
    said, documents = notes(tmp_path, "--values", values_file("operators"), versions=["keda.sh/v1alpha1"])
    assert of_kind("ScaledObject", documents)
    assert not of_kind("KafkaTopic", documents) + of_kind("KafkaUser", documents)
    assert "no objects of kafka.strimzi.io/v1" in said
    assert "keda.sh" not in said


@pytest.mark.parametrize(
    ("settings", "pod"),
    [
        ("page.enabled=true", "page"),
        ("page.enabled=false,controller.enabled=true", "controller"),
        ("page.enabled=false,controller.enabled=false", "sink"),
    ],
)
def test_the_notes_use_a_pod_that_nothing_waits_for(tmp_path, settings, pod):
    said, documents = notes(tmp_path, "--set", f"demo.enabled=true,{settings}")
    assert f"exec deploy/demo-spojoin-{pod} -- spojoin status" in said
    has_controller = "controller.enabled=false" not in settings
    assert ("deployment/demo-spojoin-controller --for condition=Running" in said) is has_controller
    assert pods(documents)[pod].kind == "Deployment"


@pytest.mark.parametrize(
    "settings",
    ["sink.replicas=3", "sink.replicas=2,page.enabled=false,controller.enabled=false", "packing=together", ""],
)
def test_the_notes_name_deployments_of_the_release(tmp_path, settings):
    said, documents = notes(tmp_path, "--set", f"demo.enabled=true,demo.load=false,{settings}")
    mentioned = set(re.findall(r"deploy(?:ment)?/(\S+)", said))
    assert mentioned
    assert mentioned <= {each["metadata"]["name"] for each in of_kind("Deployment", documents)}


@pytest.mark.parametrize(
    ("workers", "columns", "said"),
    [(5, 3, "2 of 5 workers wait without work"), (4, 3, "1 of 4 workers waits without work"), (4, 2, ""), (2, 4, "")],
)
def test_the_notes_count_workers_that_fill_no_row(tmp_path, workers, columns, said):
    grid = f"pojoin.replicas={workers},pojoin.columns={columns}"
    text, _ = notes(tmp_path, "--set", f"demo.enabled=true,{grid}")
    assert said in text
    assert ("without work" in text) is bool(said)
