"""Selectors match exactly the pods that they are meant for."""

import pytest
import yaml

from spojoin.protocol.topology import Role
from tests.support.chart import CHART, EXAMPLES, RELEASE, manifests, named, of_kind, pods, render, values_file

PREFIX = "app.kubernetes.io/"
ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text())


def chosen(selector, found):
    """The components whose pods have these labels."""
    assert selector
    return {name for name, pod in pods(found).items() if selector.items() <= pod.labels.items()}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_object_has_the_labels_of_its_release(example):
    for each in manifests(example):
        labels = each["metadata"]["labels"]
        assert labels.pop(f"{PREFIX}component")
        wanted = {
            f"{PREFIX}name": "spojoin",
            f"{PREFIX}instance": RELEASE,
            f"{PREFIX}part-of": "spojoin",
            f"{PREFIX}managed-by": "Helm",
            f"{PREFIX}version": ABOUT["appVersion"],
            "helm.sh/chart": f"{ABOUT['name']}-{ABOUT['version']}",
        }
        assert wanted.items() <= labels.items(), each["metadata"]["name"]


def labels_in(node):
    """All labels and selections of labels in an object."""
    for name, value in node.items() if isinstance(node, dict) else enumerate(node if isinstance(node, list) else ()):
        if name in ("labels", "matchLabels"):
            yield value
        yield from labels_in(value)


@pytest.mark.parametrize("release", ["on", "1234"])
def test_a_release_may_have_a_name_that_yaml_takes_for_another_type(release):
    for each in render("--values", values_file("production"), release=release):
        for labels in labels_in(each):
            assert all(isinstance(value, str) for value in labels.values()), each["metadata"]["name"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_workload_chooses_its_own_pods(example):
    found = manifests(example)
    for name, pod in pods(found).items():
        assert pod.owner["metadata"]["labels"][f"{PREFIX}component"] == name
        if pod.kind in ("Deployment", "StatefulSet"):
            selected = pod.owner["spec"]["selector"]["matchLabels"]
            assert chosen(selected, found) == {name}
            assert selected.get("joiner") == ("0" if name == "mutable" else None), "one number's pods alone"
            assert selected.get("intake") == ("0" if name == "intake" else None)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_selector_survives_version_changes(example):
    """Kubernetes forbids changes to a workload's selector."""
    for pod in pods(manifests(example)).values():
        if pod.kind in ("Deployment", "StatefulSet"):
            selector = dict(pod.owner["spec"]["selector"]["matchLabels"])
            for number in ("joiner", "intake"):
                selector.pop(number, None)
            assert selector.keys() == {f"{PREFIX}name", f"{PREFIX}instance", f"{PREFIX}component"}


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "NetworkPolicy"])
def test_budgets_and_policies_select_the_component_in_their_name(example, kind):
    found = manifests(example)
    for each in of_kind(kind, found):
        spec = each["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        component = each["metadata"]["labels"][f"{PREFIX}component"]
        assert selector.keys() == {"matchLabels"}
        assert chosen(selector["matchLabels"], found) == {component}
        assert each["metadata"]["name"].endswith(f"-{component}")


@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_of_a_component_are_spread_among_themselves(example):
    found = manifests(example)
    for name, pod in pods(found).items():
        for spread in pod.spec.get("topologySpreadConstraints", ()):
            assert chosen(spread["labelSelector"]["matchLabels"], found) == {name}


@pytest.mark.parametrize("example", EXAMPLES)
def test_services_lead_to_their_pods(example):
    found = manifests(example)
    for each in of_kind("Service", found):
        component = each["metadata"]["labels"][f"{PREFIX}component"]
        reached = chosen(each["spec"]["selector"], found)
        # The metrics Service belongs to no component: it covers every pod that opens a port `metrics`.
        assert reached == (pods(found).keys() if component == "metrics" else {component})


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_service_of_metrics_names_every_pod_ready_or_not(example):
    service = named(manifests(example), "Service", "metrics")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("example", ["demo", "production"])
def test_extra_labels_and_annotations_are_on_the_pods_of_roles(example):
    found = pods(manifests(example, "podLabels.team=joins", "podAnnotations.note=x"))
    assert {name for name, pod in found.items() if pod.labels.get("team") == "joins"} == set(Role) - {Role.CONTROLLER}
    assert {name for name, pod in found.items() if pod.annotations.get("note")} == set(Role) - {Role.CONTROLLER}
