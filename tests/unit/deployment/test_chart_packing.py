"""Roles that share a process: what a release has then, for each packing."""

import os
from dataclasses import astuple

import pytest
import yaml

from spojoin.protocol.access import group_rights, rights
from spojoin.protocol.packing import ANSWERER, group_name, parse_group, parse_packing
from spojoin.protocol.topology import LONE_ROLES, TOPOLOGY, Role
from spojoin.query.load import parse_query
from spojoin.runtime.settings import load_settings
from tests.support.chart import CHART, WITH_ALL, manifests, named, of_kind, pods, render, template, values_file

GROUPED = "sink+router mutable+logical-and"
PACKINGS = [
    "together",
    GROUPED,
    "pojoin+sink, permutation+mutable",
    "router+mutable+permutation+pojoin+logical-and+sink",
    "answerer",
    "router+sink answerer",
]
QUERY = parse_query(yaml.safe_load(values_file("operators").read_text())["query"])
INPUTS = ("in.Drop_offs", "in.pickups")


def packed(packing, *settings, example="demo"):
    given = [part for each in settings for part in ("--set", each)]
    # Commas separate values of --set.
    return render(
        "--values", values_file(example), "--set-string", f"packing={packing.replace(',', chr(92) + ',')}", *given
    )


def groups(packing, workers_max):
    """Component -> the roles of its processes; workers beside a group have a component of their own."""
    packing = parse_packing(packing)
    found = {group_name(group).replace("+", "-"): group for group in packing.groups if group != ANSWERER}
    if packing.has_answerers:
        return found | {"pojoin": ANSWERER}
    return found | ({"pojoin": (Role.POJOIN,)} if workers_max > 1 else {})


def processes(documents):
    others = {"page", "kafka", "redis", "load", "test", "check-query", "topics", "predictor", "controller"}
    return {name: pod for name, pod in pods(documents).items() if name not in others and not name.startswith("job-")}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("workers_max", [1, 4])
def test_each_group_is_a_process_that_the_program_accepts(monkeypatch, packing, workers_max):
    for name in [name for name in os.environ if name.startswith("SPOJOIN_")]:
        monkeypatch.delenv(name)
    found = processes(packed(packing, f"pojoin.replicas={workers_max}", f"pojoin.maxReplicas={workers_max}"))
    wanted = groups(packing, workers_max)
    assert found.keys() == wanted.keys() | ({"pojoin"} if "pojoin" in wanted else set())
    for component, pod in found.items():
        verb, name = pod.container["args"]
        assert (verb, parse_group(name)) == ("service", wanted[component])
        assert pod.kind == ("StatefulSet" if component == "pojoin" else "Deployment")
        with monkeypatch.context() as context:
            for variable, value in pod.variables.items():
                context.setenv(variable, "3" if value.startswith("metadata.") else value)
            settings = load_settings()
        assert parse_packing(settings.packing) == parse_packing(packing)
        assert settings.workers_max == workers_max


def test_apart_is_the_default_and_sets_nothing():
    assert packed("apart", WITH_ALL) == manifests("demo")
    assert packed("router sink") == packed("router sink")
    for pod in pods(manifests("demo")).values():
        assert not pod.variables.keys() & {"SPOJOIN_PACKING", "SPOJOIN_WORKERS_INSIDE"}


def test_together_is_one_process_and_its_page():
    """No worker may come or go, so nothing needs a controller; the layout needs no hot values."""
    found = pods(packed("together", "demo.load=false"))
    assert found.keys() == {"together", "page", "check-query", "test", "kafka", "redis"}
    variables = found["together"].variables
    assert (variables["SPOJOIN_WORKERS"], variables["SPOJOIN_WORKERS_MAX"]) == ("1", "1")
    assert variables["SPOJOIN_WORKERS_INSIDE"] == "1"


def test_a_lean_release_requests_little():
    """What CAPACITY.md promises of a release that is together: 0.08 cores and 350 MiB beside Kafka and Redis."""
    requests = [pods(packed("together"))[name].container["resources"]["requests"] for name in ("together", "page")]
    assert sum(int(each["cpu"].removesuffix("m")) for each in requests) <= 80
    assert sum(int(each["memory"].removesuffix("Mi")) for each in requests) <= 350


@pytest.mark.parametrize(
    ("packing", "settings", "wanted"),
    [
        ("together", (), False),
        ("together", ("pojoin.maxReplicas=2",), True),
        ("together", ("pojoin.replicas=2",), True),
        ("together", ("controller.enabled=true",), True),
        ("router+sink", (), True),
        ("router+sink", ("controller.enabled=false",), False),
        ("mutable+pojoin", (), False),
        ("router+pojoin", (), False),
        ("router+mutable", (), True),
        ("answerer", (), True),
    ],
)
def test_a_controller_runs_where_pods_are_numbered(packing, settings, wanted):
    assert ("controller" in pods(packed(packing, *settings))) is wanted


@pytest.mark.parametrize("packing", ["together", "apart"])
def test_a_predictor_runs_where_columns_are_by_key_or_it_is_asked_for(packing):
    by_key = "pojoin.columnsBy=key"
    assert "predictor" not in pods(packed(packing))
    assert "predictor" in pods(packed(packing, by_key))
    assert "predictor" not in pods(packed(packing, by_key, "predictor.enabled=false"))
    assert "predictor" in pods(packed(packing, WITH_ALL))


def test_answerers_are_pods_of_the_workers_with_all_rights_and_values_of_theirs():
    found = pods(packed("answerer", "pojoin.replicas=3", "pojoin.resources.requests.cpu=2"))
    assert not {"mutable-0", "logical-and"} & found.keys()
    worker = found["pojoin"]
    assert worker.container["args"] == ["service", "mutable+pojoin+logical-and"]
    assert worker.container["resources"]["requests"]["cpu"] == 2
    assert worker.variables["SPOJOIN_WORKER"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert worker.variables["SPOJOIN_PACKING"] == "answerer"
    assert not worker.variables.keys() & {"SPOJOIN_WORKERS_INSIDE", "SPOJOIN_JOINERS"}


# --- workers beside a group -------------------------------------------------------------------------------------------


def test_workers_beside_a_group_go_on_counting_where_it_ends():
    found = pods(packed("together", "pojoin.replicas=5", "pojoin.inside=2"))
    workers = found["pojoin"]
    assert workers.owner["spec"]["ordinals"] == {"start": 2}
    assert workers.variables["SPOJOIN_WORKER"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert found["together"].variables["SPOJOIN_WORKERS"] == "2"
    assert found["controller"].variables["SPOJOIN_SCALE_ONCE"] == "5"
    alone = pods(packed("together", "pojoin.replicas=5", "pojoin.inside=2", "controller.enabled=false"))
    assert alone["pojoin"].owner["spec"]["replicas"] == 3


def test_there_may_be_room_for_workers_that_do_not_run_yet():
    found = packed("together", "pojoin.maxReplicas=3")
    assert pods(found)["controller"].variables["SPOJOIN_SCALE_ONCE"] == "1"
    (delete,) = [each for each in named(found, "Role", "controller")["rules"] if each["verbs"] == ["delete"]]
    assert delete["resourceNames"] == ["demo-spojoin-pojoin-1", "demo-spojoin-pojoin-2"]


def test_apart_workers_count_from_zero():
    assert "ordinals" not in pods(manifests("demo"))["pojoin"].owner["spec"]


def test_keda_counts_the_workers_inside():
    settings = ("pojoin.maxReplicas=4", "keda.minReplicas=1")
    scaled = named(packed("together", *settings, example="operators"), "ScaledObject", "pojoin")["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (0, 3)
    cores, lag = (each["metadata"]["query"] for each in scaled["triggers"])
    scope = '{role=~"pojoin|together",query="nearby"}'
    assert cores == f"clamp_min(sum(rate(process_cpu_seconds_total{scope}[1m])) - 1 * 0.8, 0)"
    assert lag == f"max(sum by (service_name) (spojoin_input_lag_records{scope}))"
    scaled = named(packed("pojoin+sink", *settings, example="operators"), "ScaledObject", "pojoin")["spec"]
    assert '{role=~"pojoin|pojoin[+]sink",' in scaled["triggers"][0]["metadata"]["query"]


# --- rights, policies, budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_group_has_the_rights_of_its_roles_and_no_more(packing):
    found = {
        each["metadata"]["name"]: each
        for each in of_kind("KafkaUser", packed(packing, "keda.enabled=false", example="operators"))
    }
    for component, roles in groups(packing, 1).items():
        acls = found.pop(f"demo-spojoin-{component}")["spec"]["authorization"]["acls"]
        allowed = [
            (acl["resource"]["type"], acl["resource"]["name"], each, acl["resource"]["patternType"] == "prefix")
            for acl in acls
            for each in acl["operations"]
        ]
        assert len(allowed) == len(set(allowed)), "a right twice"
        assert set(allowed) == {astuple(right) for right in group_rights(roles, QUERY.name, INPUTS)}
    others = {"check", "controller", "feed", "page", "predictor", "results"}
    assert found.keys() == {f"demo-spojoin-{each}" for each in others}


def test_rights_of_one_role_are_its_own():
    assert group_rights([Role.SINK], "q", ("in.a",)) == rights(Role.SINK, "q", ("in.a",))


def test_a_group_logs_in_as_itself_and_the_check_as_the_routers_process():
    found = pods(packed(GROUPED, example="production"))
    assert found["router-sink"].variables["SPOJOIN_KAFKA_USERNAME"] == "joins-router-sink"
    options = ["--values", values_file("production"), "--set", f"packing={GROUPED}", "--is-upgrade"]
    assert pods(render(*options))["check-query"].variables["SPOJOIN_KAFKA_USERNAME"] == "joins-router-sink"


@pytest.mark.parametrize("packing", PACKINGS)
def test_groups_have_policies_and_budgets(packing):
    found = packed(packing, "pojoin.maxReplicas=2")
    components = {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in of_kind("NetworkPolicy", found)}
    assert components == pods(found).keys()
    budgets = {
        each["metadata"]["labels"]["app.kubernetes.io/component"] for each in of_kind("PodDisruptionBudget", found)
    }
    assert budgets == processes(found).keys()
    reach = {edge.role for edge in TOPOLOGY} - {*LONE_ROLES}
    assert reach == {role for group in parse_packing(packing).groups for role in group}


def test_only_processes_with_a_router_or_a_sink_reach_the_schema_registry():
    found = packed("pojoin+sink router+mutable", "schemaRegistry.url=http://registry:8081", example="production")
    reached = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in of_kind("NetworkPolicy", found)
        if any(port["port"] == 8081 for rule in each["spec"].get("egress", ()) for port in rule["ports"])
    }
    assert reached == {"pojoin-sink", "router-mutable", "page"}


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_of_groups_are_shared_or_their_own():
    shared = yaml.safe_load((CHART / "values.yaml").read_text())["shared"]["resources"]
    own = (
        "groups.router+sink.resources.limits.memory=9Gi",
        "groups.router+sink.nodeSelector.pool=fast",
        "sink.extraEnv[0].name=X",
    )
    found = pods(packed(GROUPED, *own))
    assert found["mutable-logical-and"].container["resources"] == shared
    assert found["router-sink"].container["resources"] == {**shared, "limits": {"memory": "9Gi"}}
    assert found["router-sink"].spec["nodeSelector"] == {"pool": "fast"}
    assert "nodeSelector" not in found["mutable-logical-and"].spec


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "packing=router+snk",
            'packing: unknown role "snk"; expected apart, together, or groups, for example router+sink or answerer, of',
        ),
        ("packing=router+predictor", 'packing: unknown role "predictor"'),
        ("packing=router+sink sink+mutable", "packing names sink twice; a role runs in one process"),
        ("packing=router++sink;", "packing: Does not match pattern"),
        ("settings.packing=together", "settings.packing is set by the chart itself: set packing instead"),
        ("settings.workers_inside=2", "settings.workers_inside is set by the chart itself: set pojoin.inside instead"),
        (
            "keda.enabled=true,keda.prometheus=http://p:9090,packing=together,controller.enabled=true",
            "set pojoin.maxReplicas",
        ),
    ],
)
def test_wrong_packings_are_refused_with_a_sentence(setting, sentence):
    done = template("--set", "demo.enabled=true", "--set", setting)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_values_of_a_release_from_before_packings_still_render():
    """What `--reuse-values` keeps has none of the newer values."""
    unset = [
        part for name in ("packing", "shared", "groups", "standbys", "patienceMs") for part in ("--set", f"{name}=null")
    ]
    old = [
        "--set",
        "pojoin.replicas=2,pojoin.maxReplicas=8,pojoin.inside=null,controller.enabled=true",
        "--set",
        WITH_ALL,
    ]
    assert render("--values", values_file("demo"), *unset, *old) == manifests("demo")
