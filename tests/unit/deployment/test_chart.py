"""The chart: what it renders for the example values, and what it refuses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from spojoin.protocol.access import Person
from spojoin.protocol.topology import Role

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm/spojoin"
GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = sorted(CHART.glob("ci/*-values.yaml"))
KUBERNETES = "1.34"
HELM = Path(sys.executable).parent / "helm"
#: kinds of operators, which the cluster's own schemas don't know
OPERATORS = {"ServiceMonitor", "PrometheusRule", "ScaledObject", "KafkaTopic", "KafkaUser"}
OPERATED = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1", "kafka.strimzi.io/v1")


def helm(*arguments):
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False)


def rendered(values):
    done = helm(
        "template",
        "demo",
        CHART,
        "--namespace",
        "joins",
        "--values",
        values,
        *(part for version in OPERATED for part in ("--api-versions", version)),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests(values):
    return [document for document in yaml.safe_load_all(rendered(values)) if document]


def pods(documents):
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def test_there_are_examples():
    assert [path.name for path in EXAMPLES] == ["demo-values.yaml", "operators-values.yaml", "production-values.yaml"]


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_lint_is_content(values):
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_manifests_are_as_recorded(values):
    """SPOJOIN_RECORD=1 records them anew, to be looked through before they are committed."""
    golden = GOLDEN / f"{values.stem}.yaml"
    text = rendered(values)
    if os.environ.get("SPOJOIN_RECORD"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_manifests_fit_the_schemas_of_kubernetes(values):
    documents = [document for document in manifests(values) if document["kind"] not in OPERATORS]
    assert len(documents) > 15
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_pods_keep_to_the_restricted_standard(values):
    for name, pod in pods(manifests(values)):
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], name
            assert not context["allowPrivilegeEscalation"], name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_no_pod_fills_its_nodes_disk(values, tmp_path):
    (tmp_path / "more.yaml").write_text("devKafka: {enabled: true, persistence: {enabled: false}}")
    found = helm("template", "demo", CHART, "--values", values, "--values", tmp_path / "more.yaml").stdout
    volumes = [
        (name, volume)
        for name, pod in pods(document for document in yaml.safe_load_all(found) if document)
        for volume in pod["volumes"]
        if "emptyDir" in volume
    ]
    assert len(volumes) > 10
    assert [name for name, volume in volumes if not volume["emptyDir"].get("sizeLimit")] == []


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_no_pod_is_told_of_services_by_variables(values):
    """Those of a release named spojoin would begin as settings do."""
    assert [name for name, pod in pods(manifests(values)) if pod.get("enableServiceLinks") is not False] == []


def test_a_failed_check_leaves_its_job_only_where_helm_could_not_show_its_log(tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "spojoin")
    template = chart / "templates/check-query.yaml"
    text = template.read_text()

    def policy(version):
        template.write_text(text.replace(".Capabilities.HelmVersion.Version", f'"{version}"'))
        found = yaml.safe_load_all(helm("template", "demo", chart, "--set", "demo.enabled=true").stdout)
        (job,) = [d for d in found if d["kind"] == "Job"]
        return job["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")

    assert "hook-failed" in policy("v3.18.0")
    assert "hook-failed" in policy("v4.0.1")
    assert "hook-failed" not in policy("v3.17.3")


def logins(documents):
    """Component -> user, Secret: of every container that is told who it is."""
    for document in documents:
        metadata, template = document["metadata"], document.get("spec", {}).get("template", document)
        for container in (template.get("spec") or {}).get("containers", ()):
            told = {each["name"]: each for each in container.get("env", ())}
            if "SPOJOIN_KAFKA_USERNAME" in told:
                secret = told["SPOJOIN_KAFKA_PASSWORD"]["valueFrom"]["secretKeyRef"]["name"]
                component = metadata["labels"]["app.kubernetes.io/component"]
                yield component, (told["SPOJOIN_KAFKA_USERNAME"]["value"], secret)


def test_each_component_is_a_user_of_its_own():
    found = dict(logins(manifests(CHART / "ci/production-values.yaml")))
    components = [*(role.value for role in Role), "page", "topics"]
    assert found == {each: (f"joins-{each}", f"kafka-joins-{each}") for each in components}
    assert set(components) <= {*Role, *Person}


def test_the_users_of_strimzi_are_those_that_components_are_told():
    documents = manifests(CHART / "ci/operators-values.yaml")
    made = {document["metadata"]["name"] for document in documents if document["kind"] == "KafkaUser"}
    used = dict(logins(documents))
    assert set(used) > {role.value for role in Role}
    assert {user for user, _ in used.values()} | {secret for _, secret in used.values()} <= made


KEDA = "keda.enabled=true,keda.prometheus=http://prometheus:9090"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("demo.enabled=false", "query is empty: give the query file with --set-file query.text=query.yaml"),
        ("demo.rate=fast", "demo.rate: Invalid type"),
        ("kafka.bootstrapServers=broker", "kafka.bootstrapServers: Does not match pattern"),
        ("redis.url=http://redis", "redis.url: Does not match pattern"),
        ("pojoin.replicas=0", "pojoin.replicas: Must be greater than or equal to 1"),
        ("worker.replicas=2", "Additional property worker is not allowed"),
        ("keda.enabled=true", "keda.prometheus is empty: give the address of the Prometheus"),
        (
            f"{KEDA},controller.autoscale.enabled=true",
            "keda.enabled and controller.autoscale.enabled exclude each other",
        ),
        (f"{KEDA},controller.enabled=false", "keda.enabled needs controller.enabled"),
        ("strimzi.users.enabled=true", "strimzi.cluster is empty: name the Kafka object"),
        ("jobs.feed.enabled=true", "jobs.feed.args is empty: say what is sent"),
        ("redis.passwordKey=password", "redis.passwordKey is set without redis.existingSecret"),
        ("redis.username=joins", "redis.username is set without redis.passwordKey"),
        ("kafka.users.existingSecret=everybody", "kafka.users.existingSecret: Does not match pattern"),
        ("networkPolicy.kafkaCidrs={10.0.0.1}", "networkPolicy.kafkaCidrs.0: Does not match pattern"),
    ],
)
def test_wrong_values_are_refused_with_a_sentence(setting, sentence):
    done = helm("template", "demo", CHART, "--set", "demo.enabled=true", "--set", setting)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_no_brokers_no_install():
    done = helm("template", "demo", CHART, "--set-file", f"query={CHART / 'files/demo-query.yaml'}")
    assert "kafka.bootstrapServers is empty: name the brokers as host:port" in done.stderr


def test_objects_of_operators_are_left_out_where_they_are_unknown_and_the_notes_say_so(tmp_path):
    """NOTES.txt is shown by an install only, so a copy of the chart wraps it in a ConfigMap."""
    chart = shutil.copytree(CHART, tmp_path / "spojoin")
    wrapped = """kind: ConfigMap\nnotes: {{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}\n"""
    (chart / "templates" / "wrapped.yaml").write_text(wrapped)
    values = CHART / "ci/operators-values.yaml"
    done = helm("template", "demo", chart, "--values", values, "--api-versions", "keda.sh/v1alpha1")
    documents = list(yaml.safe_load_all(done.stdout))
    assert OPERATORS & {document["kind"] for document in documents} == {"ScaledObject"}
    (notes,) = [document["notes"] for document in documents if "notes" in document]
    assert "this cluster doesn't know kafka.strimzi.io/v1" in notes
    assert "keda.sh" not in notes


def test_whole_numbers_stay_whole_in_settings():
    found = {
        entry["value"]
        for _, pod in pods(manifests(CHART / "ci/operators-values.yaml"))
        for container in pod["containers"]
        for entry in container.get("env", [])
        if entry["name"] == "SPOJOIN_RESULTS_BYTES_MAX"
    }
    assert found == {"1073741824"}


def test_a_job_with_other_values_is_another_job():
    def job(*settings):
        done = helm("template", "demo", CHART, "--set", ",".join(["demo.enabled=true", *settings]))
        return {d["metadata"]["name"] for d in yaml.safe_load_all(done.stdout) if d["kind"] == "Job"}

    wanted = "jobs.ramp.enabled=true"
    assert job(wanted) == job(wanted)
    assert len(job(wanted) & job(wanted, "sparkImage.tag=other")) == 1  # the check of the query, which is a hook
