"""Standbys: a second instance of each process that results need, beside the first but not on its node."""

import pytest

from spojoin.protocol.packing import parse_packing
from spojoin.protocol.topology import Role
from tests.support.chart import manifests, named, of_kind, pods, render, template, values_file

COMPONENT = "app.kubernetes.io/component"
TOGETHER = ("packing=together", "pojoin.replicas=2")
PACKED = pytest.mark.parametrize("settings", [(), TOGETHER], ids=["apart", "together"])


def doubled(documents):
    """First and second instance of each process."""
    found = pods(documents)
    return {name: (pod, found[f"{name}-b"]) for name, pod in found.items() if f"{name}-b" in found}


def selected(selector, found):
    """The components that a selector chooses."""
    (expression,) = selector["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (COMPONENT, "In")
    return {
        name
        for name, pod in found.items()
        if selector["matchLabels"].items() <= pod.labels.items() and pod.labels[COMPONENT] in expression["values"]
    }


@PACKED
def test_without_standbys_nothing_is_set(settings):
    found = manifests("demo", *settings)
    assert found == manifests("demo", "standbys=0", *settings)
    assert not doubled(found)
    for pod in pods(found).values():
        assert not {name for name in pod.variables if name.endswith(("_STANDBYS", "_INSTANCE", "_PATIENCE_MS"))}


@PACKED
def test_each_process_that_results_need_has_a_second_instance(settings):
    packing = dict(each.split("=") for each in settings).get("packing", "apart")
    names = {str(each).replace("+", "-") for each in ([packing] if settings else Role)} | {"intake", "pojoin"}
    found = doubled(manifests("demo", "standbys=1", *settings))
    assert found.keys() == names - {Role.PREDICTOR, Role.CONTROLLER}
    assert parse_packing(packing)


@PACKED
def test_the_second_differs_from_the_first_in_its_name_alone(settings):
    for name, (first, second) in doubled(manifests("demo", "standbys=1", *settings)).items():
        assert (first.kind, first.container["args"]) == (second.kind, second.container["args"])
        assert second.variables == first.variables | {"SPOJOIN_INSTANCE": "b"}
        for what in ("startupProbe", "readinessProbe", "livenessProbe", "resources", "volumeMounts", "securityContext"):
            assert first.container[what] == second.container[what]
        for field in ("replicas", "ordinals", "strategy", "podManagementPolicy"):
            assert first.owner["spec"].get(field) == second.owner["spec"].get(field), name
        selectors = [each.owner["spec"]["selector"]["matchLabels"] for each in (first, second)]
        assert selectors[0].keys() == selectors[1].keys()
        assert [each[COMPONENT] for each in selectors] == [name, f"{name}-b"]


@PACKED
def test_every_instance_knows_that_there_are_two(settings):
    documents = manifests("demo", "standbys=1", "patienceMs=900", *settings)
    told = [pod.variables for instances in doubled(documents).values() for pod in instances]
    assert {each["SPOJOIN_STANDBYS"] for each in told} == {"1"}
    assert {each["SPOJOIN_PATIENCE_MS"] for each in told} == {"900"}


@PACKED
def test_the_two_instances_prefer_different_nodes(settings):
    documents = manifests("demo", "standbys=1", *settings)
    for name, instances in doubled(documents).items():
        for pod in instances:
            (term,) = pod.spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
            assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
            assert selected(term["podAffinityTerm"]["labelSelector"], pods(documents)) == {name, f"{name}-b"}
            # Of numbered pods, those of one number.
            by_kind = {"StatefulSet": ["apps.kubernetes.io/pod-index"]}
            keys = {"mutable": ["joiner"], "intake": ["intake"]}.get(name, by_kind.get(pod.kind))
            assert term["podAffinityTerm"].get("matchLabelKeys") == keys
    assert "affinity" not in pods(documents)["page"].spec


def test_an_older_cluster_tells_numbers_not_apart():
    found = pods(render("--values", values_file("demo"), "--set", "standbys=1", "--kube-version", "1.30.0"))
    (term,) = found["pojoin"].spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert "matchLabelKeys" not in term["podAffinityTerm"]


def test_a_users_affinity_comes_on_top_or_wins():
    on_top = "router.affinity.nodeAffinity.x=y"
    affinity = pods(manifests("demo", "standbys=1", on_top))["router-b"].spec["affinity"]
    assert affinity.keys() == {"nodeAffinity", "podAntiAffinity"}
    wins = "router.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution=null"
    assert (
        pods(manifests("demo", "standbys=1", wins))["router-b"].spec["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        is None
    )


@PACKED
@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "NetworkPolicy"])
def test_budgets_and_policies_are_those_of_both_instances(settings, kind):
    documents = manifests("demo", "standbys=1", *settings)
    objects = {each["metadata"]["labels"][COMPONENT]: each["spec"] for each in of_kind(kind, documents)}
    for name in doubled(documents):
        spec = objects[name]
        assert selected(spec.get("podSelector") or spec["selector"], pods(documents)) == {name, f"{name}-b"}
        assert spec.get("maxUnavailable", 1) == 1
    assert not [name for name in objects if name.endswith("-b")]


def test_servers_of_the_chart_let_standbys_in():
    (policy,) = [
        each
        for each in of_kind("NetworkPolicy", manifests("demo", "standbys=1"))
        if each["metadata"]["name"].endswith("-redis")
    ]
    (peer,) = policy["spec"]["ingress"][0]["from"]
    (expression,) = peer["podSelector"]["matchExpressions"]
    assert {"router", "router-b", "pojoin-b", "page"} <= set(expression["values"])


def test_both_instances_are_one_user():
    found = doubled(manifests("production", "standbys=1"))
    for name, (first, second) in found.items():
        assert (
            first.variables["SPOJOIN_KAFKA_USERNAME"] == second.variables["SPOJOIN_KAFKA_USERNAME"] == f"joins-{name}"
        )


def test_the_controller_lets_the_standbys_follow_the_workers():
    documents = manifests("demo", "standbys=1")
    sets = ["demo-spojoin-pojoin", "demo-spojoin-pojoin-b"]
    assert pods(documents)["controller"].variables["SPOJOIN_STATEFULSET"] == ",".join(sets)
    allowed = may(documents)
    assert allowed["statefulsets", "get"] == allowed["statefulsets/scale", "patch"] == sets
    assert "demo-spojoin-pojoin-b-1" in allowed["pods", "delete"]
    assert may(manifests("operators", "standbys=1"))["statefulsets/scale", "patch"] == sets[1:]


def may(documents):
    return {
        (each["resources"][0], each["verbs"][0]): each.get("resourceNames")
        for each in named(documents, "Role", "controller")["rules"]
    }


@pytest.mark.parametrize("setting", ["standbys=2", "standbys=true", "patienceMs=0"])
def test_wrong_values_are_refused(setting):
    done = template("--set", "demo.enabled=true", "--set", setting)
    assert done.returncode != 0
    assert setting.split("=")[0] in done.stderr
