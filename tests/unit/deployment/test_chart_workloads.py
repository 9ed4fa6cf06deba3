"""Workloads: how many of each component, which program, with which resources, and where."""

import hashlib
import json
from importlib.util import find_spec

import pytest
import yaml

from spojoin.protocol.topology import Role
from tests.support.chart import CHART, EXAMPLES, FULLNAME, manifests, named, pods, render

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
PYTHON = "/opt/spojoin/bin/python"
QUERY_FILE = "/etc/spojoin/query/query.yaml"
SERVICES, DEVELOPMENT, SPARK = (f"{name}:{VERSION}" for name in ("spojoin", "spojoin-dev", "spojoin-spark"))
#: By component: its image, and its module unless the image's own program runs.
PROGRAMS = {role.value: (SERVICES, None) for role in Role} | {
    "page": (SERVICES, "spojoin.page"),
    "check-query": (SERVICES, None),
    "topics": (SERVICES, None),
    "load": (SPARK, "loadgen"),
    "test": (SPARK, "loadgen.check.smoke"),
    "kafka": (DEVELOPMENT, None),
    "redis": (DEVELOPMENT, None),
    "job-produce": (SPARK, "loadgen"),
    "job-ramp": (SPARK, "loadgen"),
    "job-chaos": (SPARK, "loadgen"),
    "job-feed": (SPARK, "loadgen"),
    "job-check": (SPARK, "loadgen"),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_programs_are_those_of_the_images(example):
    for component, pod in pods(manifests(example)).items():
        image, module = (SERVICES, None) if component == "test" and example != "demo" else PROGRAMS[component]
        assert pod.container["image"] == image
        assert pod.container["imagePullPolicy"] == "IfNotPresent"
        assert pod.container.get("command") == ([PYTHON, "-m", module] if module else None)
        if module:
            assert find_spec(module), module


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_role_is_started_by_its_name(example):
    found = pods(manifests(example))
    assert {role: found[role].container["args"] for role in Role} == {role: ["service", role.value] for role in Role}
    assert found["check-query"].container["args"][:3] == ["validate", QUERY_FILE, "--deployed"]


def test_servers_of_a_demo_are_started_by_their_names():
    found = pods(manifests("demo"))
    assert (found["kafka"].container["args"], found["redis"].container["args"]) == (["broker"], ["store"])


def test_topics_are_made_for_the_query():
    assert pods(manifests("production"))["topics"].container["args"] == ["topics", QUERY_FILE]


def test_jobs_do_what_the_values_request():
    found = {name: pod.container["args"] for name, pod in pods(manifests("operators")).items() if name[:4] == "job-"}
    jobs = DEFAULTS["jobs"]
    services, pods_of_release = {"query": QUERY_FILE}, {"namespace": "joins", "release": "demo"}
    chaos = {"services": services, "where": "kubernetes", "pods": pods_of_release, "kinds": "delete"}
    files = {name: json.loads(found[name].pop(1)) for name in ("job-produce", "job-ramp", "job-chaos")}
    assert files == {
        "job-produce": {"via": "spark"},
        "job-ramp": {"services": services, "output": "/tmp/ramp"},
        "job-chaos": chaos,
    }
    assert found == {
        "job-produce": ["produce", *jobs["produce"]["args"]],
        "job-ramp": ["ramp", *jobs["ramp"]["args"]],
        "job-chaos": ["chaos", *jobs["chaos"]["args"]],
        "job-feed": ["feed", "flights", "--topic", "in.pickups"],
        "job-check": ["check", QUERY_FILE, *jobs["check"]["args"]],
    }


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ((), "delete,broker,redis"),
        (("shareProcessNamespace=true",), "delete,kill,pause,broker,redis"),
        (("redis.url=redis://outer:6379/0",), "delete,broker"),
    ],
)
def test_chaos_strikes_only_the_releases_own_pods(settings, kinds):
    arguments = pods(manifests("demo", "jobs.chaos.enabled=true", *settings))["job-chaos"].container["args"]
    assert json.loads(arguments[1])["kinds"] == kinds


# --- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_one_of_each_runs_except_joiners_and_workers(example):
    """The number of workers is in no manifest."""
    found = {
        name: pod.owner["spec"].get("replicas")
        for name, pod in pods(manifests(example)).items()
        if pod.kind in ("Deployment", "StatefulSet")
    }
    assert found.pop("pojoin") is None
    assert found.keys() >= {*Role, "page"} - {Role.POJOIN}
    assert set(found.values()) == {1}


def test_the_values_set_the_number_of_joiners_and_where_there_is_no_controller_of_workers():
    documents = manifests("demo", "mutable.replicas=3", "pojoin.replicas=5", "controller.enabled=false")
    assert [named(documents, "Deployment", f"mutable-{number}")["spec"]["replicas"] for number in range(3)] == [1, 1, 1]
    found = pods(documents)
    assert found["pojoin"].owner["spec"]["replicas"] == 5
    assert found["router"].variables["SPOJOIN_WORKERS"] == "5"


def test_the_controller_sets_the_number_of_workers_and_routers_begin_with_the_one_that_is_there():
    found = pods(manifests("demo", "pojoin.replicas=5"))
    assert found["controller"].variables["SPOJOIN_SCALE_ONCE"] == "5"
    told = {name for name, pod in found.items() if "SPOJOIN_WORKERS" in pod.variables} & {*Role, "page"}
    assert told == {"router", "controller", "page"}
    assert {found[name].variables["SPOJOIN_WORKERS"] for name in told} == {"1"}


def test_a_layout_that_asks_for_workers_begins_with_them(tmp_path):
    query = (CHART / "files/demo-query.yaml").read_text()
    (tmp_path / "query.yaml").write_text(f"{query}\nlayout: {{name: bchj, workers: 3}}\n")
    options = ("--set", "demo.enabled=true,pojoin.replicas=3", "--set-file", f"query.text={tmp_path / 'query.yaml'}")
    found = pods(render(*options))
    assert found["router"].variables["SPOJOIN_WORKERS"] == "3"


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_new_pod_of_a_role_that_results_wait_for_starts_beside_the_old_one(example):
    """It can't where a pod has its number from its name; and nothing waits for predictor and controller."""
    found = pods(manifests(example))
    beside = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    for role in Role:
        pod = found[role]
        if role is Role.POJOIN:
            assert (pod.kind, pod.owner["spec"]["podManagementPolicy"]) == ("StatefulSet", "Parallel")
            assert pod.owner["spec"]["serviceName"] == f"{FULLNAME}-metrics"
        else:
            wanted = {"type": "Recreate"} if role in (Role.PREDICTOR, Role.CONTROLLER) else beside
            assert (pod.kind, pod.owner["spec"]["strategy"]) == ("Deployment", wanted)


@pytest.mark.parametrize("packing", ["together", "router+sink mutable+logical-and"])
def test_so_does_that_of_roles_that_share_a_process(packing):
    found = pods(manifests("demo", f"packing={packing}", "standbys=1"))
    shared = [name for name, pod in found.items() if "together" in name or "router-sink" in name]
    assert len(shared) == 2
    for name in shared:
        assert found[name].owner["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_drain_moves_one_pod_of_a_role_at_a_time(example):
    """The predictor, the controller and the page may go at any time: no result waits for them."""
    found = manifests(example)
    for role in set(Role) - {Role.PREDICTOR, Role.CONTROLLER}:
        budget = named(found, "PodDisruptionBudget", role)["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"]["matchLabels"]["app.kubernetes.io/component"] == role


# --- resources and places ---------------------------------------------------------------------------------------------


def values_of(component):
    name, _, job = component.partition("job-")
    return DEFAULTS["jobs"][job] if job else DEFAULTS[{"logical-and": "logicalAnd"}.get(name, name)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_resources_are_those_of_the_values(example):
    found = pods(manifests(example))
    without_values = {"check-query", "topics", "load", "test", "kafka", "redis"}
    for component in found.keys() - without_values:
        assert found[component].container["resources"] == values_of(component)["resources"], component
    for component, values in {"kafka": "devKafka", "redis": "devRedis"}.items():
        if component in found:
            assert found[component].container["resources"] == DEFAULTS[values]["resources"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_container_asks_for_cpu_and_memory_and_has_a_limit_of_memory_alone(example):
    """A limit of CPU would stop a service in the middle of a frame."""
    for component, pod in pods(manifests(example)).items():
        resources = pod.container["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}, component
        assert resources["limits"].keys() == {"memory"}, component


def test_resources_and_places_of_a_role_are_its_own():
    found = pods(manifests("production", "sink.resources.limits.memory=9Gi", "router.affinity.nodeAffinity.x=y"))
    assert {name for name, pod in found.items() if pod.container["resources"]["limits"]["memory"] == "9Gi"} == {"sink"}
    assert {name for name, pod in found.items() if "affinity" in pod.spec} == {"router"}
    assert {name: pod.spec["nodeSelector"] for name, pod in found.items() if "nodeSelector" in pod.spec} == {
        "pojoin": {"pool": "memory"}
    }


def test_all_pods_but_checks_have_the_priority():
    found = pods(manifests("production"))
    assert {name: pod.spec.get("priorityClassName") for name, pod in found.items()} == {
        name: None if name in ("check-query", "test") else "streaming" for name in found
    }


@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_of_a_component_are_spread_over_nodes(example):
    found = {name: pod for name, pod in pods(manifests(example)).items() if name not in ("check-query", "test")}
    for name, pod in found.items():
        (spread,) = pod.spec["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
        assert spread["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == name


# --- life -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_judges_the_query_restarts_when_it_changes_and_what_follows_when_its_name_does(example):
    found = manifests(example)
    (text,) = named(found, "ConfigMap", "query")["data"].values()
    digest, name = hashlib.sha256(text.encode()).hexdigest(), yaml.safe_load(text)["name"]
    started, judging = pods(found), {Role.ROUTER, Role.CONTROLLER, "page"}
    for component in judging:
        assert started[component].annotations["checksum/query"] == digest, component
    for component in {*Role} - judging:
        annotations = started[component].annotations
        assert (annotations["query"], "checksum/query" in annotations) == (name, False), component


@pytest.mark.parametrize("example", EXAMPLES)
def test_services_have_time_to_finish_a_frame_and_workers_to_drain(example):
    found = pods(manifests(example))
    for role in set(Role) - {Role.CONTROLLER}:
        assert found[role].spec["terminationGracePeriodSeconds"] == 30
    assert {name for name, pod in found.items() if "SPOJOIN_DRAIN_MS" in pod.variables} == {"pojoin"}


@pytest.mark.parametrize(("seconds", "drain_ms"), [(5, "1000"), (15, "5000"), (30, "20000"), (300, "20000")])
def test_a_drain_ends_before_the_pod_is_killed(seconds, drain_ms):
    pod = pods(manifests("demo", f"terminationGracePeriodSeconds={seconds}"))["pojoin"]
    assert pod.variables["SPOJOIN_DRAIN_MS"] == drain_ms


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_job_is_not_retried_where_that_would_do_harm(example):
    """A retry would send the same rows again; making topics may be retried at will."""
    jobs = {name: pod for name, pod in pods(manifests(example)).items() if pod.kind == "Job"}
    for name, pod in jobs.items():
        wanted = (10, "OnFailure") if name == "topics" else (0, "Never")
        assert (pod.owner["spec"]["backoffLimit"], pod.spec["restartPolicy"]) == wanted, name


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_pod_has_service_link_variables(example):
    """Those of a release named spojoin would look like settings."""
    found = pods(manifests(example))
    assert [name for name, pod in found.items() if pod.spec.get("enableServiceLinks") is not False] == []


def test_a_job_with_other_values_is_another_job():
    def job(*settings):
        (name,) = [
            pod.owner["metadata"]["name"]
            for component, pod in pods(manifests("demo", "jobs.ramp.enabled=true", *settings)).items()
            if component == "job-ramp"
        ]
        return name

    assert job() == job() != job("sparkImage.tag=other")
