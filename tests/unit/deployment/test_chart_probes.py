"""Probes ask the paths and ports that programs serve, with the patience that a start or a stall needs."""

import re
from pathlib import Path

import pytest

from spojoin.protocol.topology import Role
from tests.support.chart import EXAMPLES, manifests, named, of_kind, pods

DOCKERFILE = Path(__file__).parents[3] / "docker/services.Dockerfile"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def probes(pod):
    return {name: pod.container[name] for name in PROBES if name in pod.container}


def ports(pod):
    return {port["name"]: port["containerPort"] for port in pod.container.get("ports", [])}


def get(path, port, **patience):
    return {"httpGet": {"path": path, "port": port}, **patience}


@pytest.mark.parametrize("example", EXAMPLES)
def test_services_have_liveness_and_readiness_probes(example):
    """A start may take two minutes; a pod that isn't ready is noticed in seconds, one that hangs in half a minute."""
    found = pods(manifests(example))
    start = get("/healthz", "metrics", periodSeconds=1, failureThreshold=120)
    ready = get("/readyz", "metrics", periodSeconds=2, timeoutSeconds=5)
    live = get("/healthz", "metrics", periodSeconds=10, timeoutSeconds=10)
    for role in Role:
        asked = probes(found[role])
        assert asked.pop("livenessProbe") in (live, live | {"failureThreshold": 3}), role  # which is the default
        assert asked == {"startupProbe": start, "readinessProbe": ready}, role


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_is_ready_while_the_query_is_well_and_reached_while_it_is_not(example):
    assert named(manifests(example), "Service", "page")["spec"]["publishNotReadyAddresses"] is True
    assert probes(pods(manifests(example))["page"]) == {
        "startupProbe": get("/healthz", "http", periodSeconds=1, failureThreshold=120),
        "readinessProbe": get("/well", "http", periodSeconds=2, timeoutSeconds=5),
        "livenessProbe": get("/healthz", "http", periodSeconds=10, timeoutSeconds=10),
    }


@pytest.mark.parametrize(("server", "port", "tries"), [("kafka", 9092, 120), ("redis", 6379, 60)])
def test_a_demos_servers_are_probed_by_a_connection(server, port, tries):
    """Being busy doesn't restart them."""
    pod = pods(manifests("demo"))[server]
    assert ports(pod) == {server: port}
    assert probes(pod) == {
        "startupProbe": {"tcpSocket": {"port": server}, "periodSeconds": 1, "failureThreshold": tries},
        "readinessProbe": {"tcpSocket": {"port": server}, "periodSeconds": 5},
    }


@pytest.mark.parametrize("example", EXAMPLES)
def test_services_serve_where_the_image_says(example):
    image = dict(re.findall(r"(SPOJOIN_METRICS_\w+)=(\S+)", DOCKERFILE.read_text()))
    assert image["SPOJOIN_METRICS_HOST"] == "0.0.0.0"
    found = pods(manifests(example))
    for role in Role:
        assert ports(found[role]) == {"metrics": int(image["SPOJOIN_METRICS_PORT"])}
        assert not found[role].variables.keys() & image.keys()


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_serves_where_it_is_probed(example):
    page = pods(manifests(example))["page"]
    assert ports(page) == {"http": int(page.variables["SPOJOIN_PAGE_PORT"])}
    assert page.variables["SPOJOIN_PAGE_HOST"] == "0.0.0.0"


@pytest.mark.parametrize("example", EXAMPLES)
def test_jobs_have_no_probes(example):
    serving = {*Role, "page", "kafka", "redis"}
    found = pods(manifests(example))
    assert [name for name, pod in found.items() if name not in serving and (probes(pod) or ports(pod))] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_kubernetes_services_lead_to_ports_that_pods_open(example):
    found = manifests(example)
    targets = {
        each["spec"]["selector"].get("app.kubernetes.io/component", "metrics"): each["spec"]["ports"]
        for each in of_kind("Service", found)
    }
    started = pods(found)
    for name, ((port,)) in targets.items():
        component = Role.ROUTER if name == "metrics" else name
        assert port["targetPort"] in ports(started[component])
    assert {name: port["port"] for name, (port,) in targets.items()} == {
        name: {"metrics": 8080, "page": 80, "kafka": 9092, "redis": 6379}[name] for name in targets
    }
