"""The chart: what it renders for the example values, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm/spojoin"
GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = sorted(CHART.glob("ci/*-values.yaml"))
KUBERNETES = "1.34"
HELM = Path(sys.executable).parent / "helm"
#: kinds of operators, which the cluster's own schemas don't know
OPERATORS = {"ServiceMonitor", "PrometheusRule", "ScaledObject", "KafkaTopic", "KafkaUser"}


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
        "--api-versions",
        "monitoring.coreos.com/v1",
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
    assert [path.name for path in EXAMPLES] == ["demo-values.yaml", "production-values.yaml"]


def test_lint_is_content():
    done = helm("lint", "--strict", CHART, "--values", CHART / "ci/demo-values.yaml")
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


def test_a_joiner_for_each_predicate():
    replicas = {
        values.stem: document["spec"]["replicas"]
        for values in EXAMPLES
        for document in manifests(values)
        if document["metadata"]["name"].endswith("-mutable") and document["kind"] == "StatefulSet"
    }
    assert replicas == {"demo-values": 2, "production-values": 3}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("demo.enabled=false", "query is empty: give the query file with --set-file query=query.yaml"),
        ("demo.rate=fast", "demo.rate: Invalid type"),
        ("kafka.bootstrapServers=broker", "kafka.bootstrapServers: Does not match pattern"),
        ("redis.url=http://redis", "redis.url: Does not match pattern"),
        ("pojoin.replicas=0", "pojoin.replicas: Must be greater than or equal to 1"),
        ("worker.replicas=2", "Additional property worker is not allowed"),
    ],
)
def test_wrong_values_are_refused_with_a_sentence(setting, sentence):
    done = helm("template", "demo", CHART, "--set", "demo.enabled=true", "--set", setting)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_no_brokers_no_install():
    done = helm("template", "demo", CHART, "--set-file", f"query={CHART / 'files/demo-query.yaml'}")
    assert "kafka.bootstrapServers is empty: name the brokers as host:port" in done.stderr
