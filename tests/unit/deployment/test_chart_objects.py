"""Which objects a release has: a missing or extra one fails."""

import re

import pytest

from spojoin.protocol.topology import Role
from tests.support.chart import DASHBOARDS, EXAMPLES, FULLNAME, NAMESPACE, manifests, render, values_file

ROLES = " ".join(Role)
BUDGETED = "intake logical-and mutable permutation pojoin router sink"
#: By kind, the suffixes of the names after the release's full name; "" is the full name itself.
ALWAYS = {
    "ConfigMap": "check-query pojoin query",
    "Deployment": "controller intake-0 logical-and mutable-0 mutable-1 page permutation predictor router sink",
    "Job": "check-query",
    "NetworkPolicy": f"check-query page test {ROLES}",
    "Pod": "test",
    "PodDisruptionBudget": BUDGETED,
    "Role": "controller",
    "RoleBinding": "controller",
    "Service": "metrics page",
    "ServiceAccount": ["", "controller"],
    "StatefulSet": "pojoin",
}
MORE = {
    "demo": {
        "Deployment": "load redis",
        "NetworkPolicy": "kafka load redis",
        "Service": "kafka redis",
        "StatefulSet": "kafka",
    },
    "operators": {
        "HTTPRoute": "page",
        "Job": "job-chaos job-check job-feed job-produce job-ramp",
        "KafkaUser": f"check feed page results {ROLES}",
        "NetworkPolicy": "job-chaos job-check job-feed job-produce job-ramp",
        "Role": "job-chaos",
        "RoleBinding": "job-chaos",
        "ScaledObject": "pojoin",
        "ServiceAccount": "job-chaos",
    },
    "production": {
        "Ingress": "page",
        "Job": "topics",
        "NetworkPolicy": "topics",
        "PrometheusRule": [""],
        "ServiceMonitor": [""],
    },
}
#: Topics' objects are named by the topic; a name that Kubernetes doesn't allow ends in a digest.
TOPICS = "batches blocks control frames generations matches partials plan positions results runs"
MORE["operators"]["KafkaTopic"] = [
    *(f".nearby.{topic}" for topic in TOPICS.split()),
    ".in.drop-offs.dlq-b6d94dfe",
    ".in.pickups.dlq",
]
#: A Job's name ends in a digest of its pod, except the hook's.
DIGEST = re.compile(r"-[0-9a-f]{8}$")


def ends(names):
    if isinstance(names, str):
        names = [f"-{name}" for name in names.split()]
    return {name if name[:1] in ("", "-", ".") else f"-{name}" for name in names}


def wanted(example):
    kinds = ALWAYS.keys() | MORE[example].keys()
    return {kind: ends(ALWAYS.get(kind, ())) | ends(MORE[example].get(kind, ())) for kind in kinds}


def named(documents):
    found = {}
    for document in documents:
        kind, name = document["kind"], document["metadata"]["name"]
        if name == DASHBOARDS:
            continue
        assert name.startswith(FULLNAME)
        end = name.removeprefix(FULLNAME)
        found.setdefault(kind, []).append(DIGEST.sub("", end) if kind == "Job" else end)
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_release_has_these_objects_and_no_other(example):
    found = named(manifests(example))
    assert {kind: set(names) for kind, names in found.items()} == wanted(example)
    assert all(len(names) == len(set(names)) for names in found.values())


def test_every_example_is_covered():
    assert sorted(path.name for path in values_file("demo").parent.iterdir()) == [
        f"{example}-values.yaml" for example in EXAMPLES
    ]


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_objects_are_in_the_releases_namespace(example):
    assert {each["metadata"].get("namespace", NAMESPACE) for each in manifests(example)} == {NAMESPACE}


@pytest.mark.parametrize(
    ("setting", "gone"),
    [
        ("predictor.enabled=false", {"Deployment-predictor", "NetworkPolicy-predictor"}),
        ("page.enabled=false", {"Deployment-page", "NetworkPolicy-page", "Service-page"}),
        (
            "controller.enabled=false",
            {"ConfigMap-pojoin"}
            | {
                f"{kind}-controller"
                for kind in ("Deployment", "NetworkPolicy", "Role", "RoleBinding", "ServiceAccount")
            },
        ),
        ("podDisruptionBudget.enabled=false", {f"PodDisruptionBudget-{name}" for name in BUDGETED.split()}),
        ("serviceAccount.create=false", {"ServiceAccount"}),
        ("demo.load=false", {"Deployment-load", "NetworkPolicy-load"}),
        ("devRedis.enabled=false", {f"{kind}-redis" for kind in ("Deployment", "NetworkPolicy", "Service")}),
        ("networkPolicy.enabled=false", {f"NetworkPolicy{end}" for end in wanted("demo")["NetworkPolicy"]}),
    ],
)
def test_a_switch_removes_its_objects_and_no_others(setting, gone):
    def shown(documents):
        return {f"{kind}{end}" for kind, names in named(documents).items() for end in names}

    assert shown(manifests("demo")) - shown(manifests("demo", setting)) == gone
    assert shown(manifests("demo", setting)) <= shown(manifests("demo"))


def test_another_release_beside_it_shares_no_object():
    found = [
        {(each["kind"], each["metadata"]["name"]) for each in render("--values", values_file("demo"), release=release)}
        for release in ("demo", "other")
    ]
    assert len(found[0]) == len(found[1]) > 20
    assert not found[0] & found[1]
