"""What an install checks before anything runs: the Job's own command and variables, run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from spojoin.cli.main import app
from tests.support.sample_queries import sample_queries

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm/spojoin"
HELM = Path(sys.executable).parent / "helm"
SAMPLES = sample_queries()
#: A search for comparisons in the text of these queries counts wrongly, or not at all.
HARD_TO_COUNT = ("alike-within-a-week", "less-late-soon-after", "q2", "readme-delays-passed-on")


def template(query, *settings, versions=()):
    options = [part for setting in settings for part in ("--set", setting)]
    options += [part for version in versions for part in ("--api-versions", version)]
    command = [HELM, "template", "demo", CHART, "--set", "demo.enabled=true", "--set-file", f"query={query}", *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def documents(*arguments, **options):
    done = template(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def checked(query, *settings, **options):
    """Run the check of the query, as the install does."""
    name = "demo-spojoin-check-query"
    found = documents(query, *settings, **options)
    (job,) = [each for each in found if each["kind"] == "Job" and each["metadata"]["name"] == name]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = [str(query) if part.endswith("query.yaml") else part for part in container["args"]]
    return CliRunner().invoke(app, arguments, env={each["name"]: value_of(each) for each in container["env"]})


def value_of(variable):
    """Its value, or what its Secret may hold."""
    address = "redis://r:6379/0" if variable["name"] == "SPOJOIN_REDIS_URL" else "secret"
    return variable.get("value", address)


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SPOJOIN_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def demo():
    return CHART / "files/demo-query.yaml"


def test_samples_are_found():
    assert set(HARD_TO_COUNT) < SAMPLES.keys()
    assert len(SAMPLES) >= 12


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_query_passes_with_the_values_as_they_are(tmp_path, name):
    (tmp_path / "query.yaml").write_text(SAMPLES[name])
    result = checked(tmp_path / "query.yaml")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_values_set_the_number_of_joiners_whatever_the_query(tmp_path, replicas):
    for name in HARD_TO_COUNT:
        (tmp_path / "query.yaml").write_text(SAMPLES[name])
        found = documents(tmp_path / "query.yaml", f"mutable.replicas={replicas}")
        joiners = [d for d in found if d["kind"] == "Deployment" and "-mutable-" in d["metadata"]["name"]]
        assert len(joiners) == replicas
        for number, joiner in enumerate(joiners):
            variables = {e["name"]: e.get("value") for e in joiner["spec"]["template"]["spec"]["containers"][0]["env"]}
            assert (variables["SPOJOIN_JOINERS"], variables["SPOJOIN_JOINER"]) == (str(replicas), str(number))


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_values_set_the_number_of_logical_ands(demo, replicas):
    found = documents(demo, f"logicalAnd.replicas={replicas}")
    ands = [d for d in found if d["kind"] == "Deployment" and "logical-and" in d["metadata"]["name"]]
    variables = [
        {e["name"]: e.get("value") for e in each["spec"]["template"]["spec"]["containers"][0]["env"]} for each in ands
    ]
    assert [each["metadata"]["name"].partition("logical-and")[2] for each in ands] == (
        [""] if replicas == 1 else ["-0", "-1", "-2"]
    )
    assert [each.get("SPOJOIN_LOGICAL_AND") for each in variables] == ([None] if replicas == 1 else ["0", "1", "2"])
    assert {each["SPOJOIN_LOGICAL_ANDS"] for each in variables} == {str(replicas)}


def test_templates_read_no_sql(tmp_path, demo):
    """A query that only the program can refuse renders like any other."""
    (tmp_path / "query.yaml").write_text(demo.read_text().replace("SELECT", "SELCT"))
    result = checked(tmp_path / "query.yaml")
    assert result.exit_code == 2
    assert "line 7, column 11: sql can't be read" in result.stderr


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("settings.frame_tuples=abc", "setting frame_tuples is 'abc': input should be a valid integer"),
        ("settings.frame_tuplse=1", "SPOJOIN_FRAME_TUPLSE is no setting: did you mean SPOJOIN_FRAME_TUPLES?"),
        ("settings.handover_frames=400", "lower frame_tuples or batch_tuples"),
        ("controller.autoscale.minReplicas=9", "scale_min is 9 and scale_max is 8"),
        ("settings.input_topics=racks", "setting input_topics can't be read: expected a JSON object"),
    ],
)
def test_a_wrong_setting_ends_the_install_with_its_sentence(demo, setting, sentence):
    result = checked(demo, setting)
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "settings",
    [
        ("redis.url=redis://r:6379", "redis.username=me", "redis.existingSecret=s", "redis.passwordKey=p"),
        ("redis.existingSecret=s", "controller.autoscale.enabled=true"),
        (
            "settings.kafka_username=me",
            "extraEnv[0].name=SPOJOIN_KAFKA_PASSWORD",
            "extraEnv[0].valueFrom.secretKeyRef.name=s",
            "extraEnv[1].name=TZ",
            "extraEnv[1].value=UTC",
        ),
    ],
    ids=["password", "address", "variable"],
)
def test_the_check_reads_secrets(demo, settings):
    result = checked(demo, *settings)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("settings.joiners=3", "settings.joiners is set by the chart itself: set mutable.replicas instead"),
        (
            "settings.logical_ands=3",
            "settings.logical_ands is set by the chart itself: set logicalAnd.replicas instead",
        ),
        ("settings.WORKERS=3", "settings.WORKERS is set by the chart itself: set pojoin.replicas instead"),
        ("settings.metrics_port=9000", "settings.metrics_port is set by the chart itself: remove it"),
        ("mutable.replicas=null", "mutable: replicas is required"),
        ("tmpSize=big", "tmpSize: Does not match pattern"),
    ],
)
def test_contradictory_values_are_refused(demo, setting, sentence):
    done = template(demo, setting)
    assert done.returncode != 0
    assert sentence in done.stderr


# -- topics and rights that the chart makes instead of the program

STRIMZI = ("strimzi.cluster=c", "strimzi.topics.enabled=true", "strimzi.users.enabled=true")
VERSIONS = ("kafka.strimzi.io/v1",)


def test_partials_have_room_for_the_predicates_or_the_install_says_so(demo):
    assert checked(demo, *STRIMZI, versions=VERSIONS).exit_code == 0
    result = checked(demo, *STRIMZI, "strimzi.topics.predicates=1", versions=VERSIONS)
    assert result.exit_code == 2
    assert "set strimzi.topics.predicates to 2 or more" in result.stderr


def test_a_name_that_yaml_reads_as_another_type_needs_quotes(tmp_path, demo):
    (tmp_path / "query.yaml").write_text(demo.read_text().replace("name: demo", "name: on"))
    assert checked(tmp_path / "query.yaml").exit_code == 0
    result = checked(tmp_path / "query.yaml", *STRIMZI, versions=VERSIONS)
    assert result.exit_code == 2
    assert "put on in quotes in the query file" in result.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: [", "query is not YAML: "),
        ("name: q\nstreams: []", "query has no streams: give the query file with --set-file query.text="),
    ],
)
def test_a_query_without_names_is_refused_where_they_are_needed(tmp_path, text, sentence):
    (tmp_path / "query.yaml").write_text(text)
    done = template(tmp_path / "query.yaml", *STRIMZI, versions=VERSIONS)
    assert done.returncode != 0
    assert sentence in done.stderr


# -- a query that replaces another


def rendered(*options):
    done = subprocess.run(
        [HELM, "template", "demo", CHART, *map(str, options)], capture_output=True, text=True, check=True
    )
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def variables_of(found, name):
    """The variables of the only container of an object's pods."""
    (document,) = [
        each
        for each in found
        if each["metadata"]["name"] == name and each["kind"] in ("Job", "Deployment", "StatefulSet")
    ]
    (container,) = document["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


@pytest.mark.parametrize("component", ["router", "sink", "pojoin", "check-query"])
def test_replacement_values_reach_the_router_and_the_check(demo, component):
    given = ["--set", "demo.enabled=true", "--set-file", f"query.text={demo}"]
    plain = variables_of(rendered(*given), f"demo-spojoin-{component}")
    is_reader = component in ("router", "check-query")
    assert plain.get("SPOJOIN_REPLACE") == ("false" if is_reader else None)
    assert "SPOJOIN_BACKFILL" not in plain
    found = variables_of(
        rendered(*given, "--set", "query.replace=true,query.backfill=none"), f"demo-spojoin-{component}"
    )
    assert found == plain | ({"SPOJOIN_REPLACE": "true", "SPOJOIN_BACKFILL": "none"} if is_reader else {})


def test_a_query_renders_alike_as_text_and_as_a_map(demo):
    given = ["--set", "demo.enabled=true", "--set-file"]
    assert rendered(*given, f"query={demo}") == rendered(*given, f"query.text={demo}")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("settings.replace=true", "settings.replace is set by the chart itself: set query.replace instead"),
        ("settings.BACKFILL=none", "settings.BACKFILL is set by the chart itself: set query.backfill instead"),
        ("query.backfill=all", "query.backfill: query.backfill must be one of the following"),
        ("query.replace=perhaps", "query.replace: Invalid type"),
        ("query.txt=q", "Additional property txt is not allowed"),
    ],
)
def test_wrong_values_of_a_replacement_are_refused(setting, sentence):
    done = subprocess.run(
        [HELM, "template", "demo", CHART, "--set", "demo.enabled=true", "--set", setting],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert sentence in done.stderr


def check_of(*options):
    """The pod of the check before an install or upgrade of the production example."""
    found = rendered("--values", CHART / "ci/production-values.yaml", *options)
    (job,) = [each for each in found if each["kind"] == "Job" and each["metadata"]["name"].endswith("-check-query")]
    return job["spec"]["template"]["spec"]


def test_the_check_asks_kafka_as_the_router_whatever_it_is_part_of():
    (first,), (later,) = check_of()["containers"], check_of("--is-upgrade")["containers"]
    assert first == later
    assert "--running" in first["args"]
    variables = {each["name"]: each for each in first["env"]}
    assert variables["SPOJOIN_KAFKA_USERNAME"]["value"] == "joins-router"
    secret = variables["SPOJOIN_KAFKA_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "kafka-joins-router", "key": "password", "optional": True}


def test_the_query_that_the_check_compares_is_the_new_one():
    volumes = {each["name"]: each for each in check_of()["volumes"]}
    assert volumes["query"]["configMap"]["name"] == "demo-spojoin-check-query"
    assert "kafka-tls" in volumes


def test_a_release_that_makes_strimzi_users_does_not_wait_for_passwords():
    options = ("--set", "strimzi.cluster=c,strimzi.users.enabled=true")
    (container,) = check_of(*options)["containers"]
    assert "--coming" in container["args"]


@pytest.mark.parametrize(("name", "is_owner"), [("joins/first", True), ("spojoin-up", True), ("first", False)])
def test_a_name_is_adopted_from_a_release_or_from_spojoin_up(name, is_owner):
    done = subprocess.run(
        [HELM, "template", "demo", CHART, "--set", f"demo.enabled=true,query.adopt={name}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is is_owner, done.stderr
    assert ("query.adopt: Does not match pattern" in done.stderr) is not is_owner
