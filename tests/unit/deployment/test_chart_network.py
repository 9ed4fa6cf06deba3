"""Network policies allow the connections of the topology and no others."""

import pytest
import yaml

from spojoin.protocol.topology import TOPOLOGY, Role
from tests.support.chart import EXAMPLES, RELEASE, manifests, notes, of_kind, pods, template, values_file

NAMESPACE_NAME = "kubernetes.io/metadata.name"
COMPONENT = "app.kubernetes.io/component"
NAMES = {(53, "UDP"), (53, "TCP")}
KAFKA = {(port, "TCP") for port in (9092, 9093, 9094)}
REDIS = {(port, "TCP") for port in (6379, 6380)}
KUBERNETES = {(port, "TCP") for port in (443, 6443)}
#: The servers that a component which isn't a role reaches.
OTHERS = {
    "check-query": NAMES | KAFKA,
    "page": NAMES | KAFKA | REDIS,
    "test": NAMES | REDIS,
    "topics": NAMES | KAFKA,
    "job-produce": NAMES | KAFKA,
    "job-feed": NAMES | KAFKA,
    "job-ramp": NAMES | KAFKA,
    "job-check": NAMES | KAFKA | REDIS,
    "job-chaos": NAMES | KAFKA | REDIS | KUBERNETES,
}


def policies(documents):
    return {
        each["spec"]["podSelector"]["matchLabels"][COMPONENT]: each["spec"]
        for each in of_kind("NetworkPolicy", documents)
    }


def reached(policy):
    return {(port["port"], port["protocol"]) for rule in policy.get("egress", []) for port in rule["ports"]}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_has_a_policy_and_every_policy_a_pod(example):
    documents = manifests(example)
    found = policies(documents)
    assert pods(documents).keys() == found.keys()
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in found.values())


@pytest.mark.parametrize("example", ["operators", "production"])
def test_roles_reach_what_the_table_says_and_no_more(example):
    found = policies(manifests(example))
    for edge in TOPOLOGY:
        asks = KUBERNETES if edge.role is Role.CONTROLLER else set()
        assert reached(found.pop(edge.role)) == NAMES | KAFKA | REDIS | asks, edge.role
    assert {name: reached(policy) for name, policy in found.items()} == {name: OTHERS[name] for name in found}


@pytest.mark.parametrize("example", EXAMPLES)
def test_only_metrics_and_the_page_let_connections_in(example):
    open_to_all = [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    found = policies(manifests(example))
    serving = {*Role, "page"}
    for name in found.keys() - {"kafka", "redis"}:
        assert found[name].get("ingress") == (open_to_all if name in serving else None), name


def test_a_value_sets_who_may_reach_metrics_and_the_page():
    label = "networkPolicy.ingressFrom[0].namespaceSelector.matchLabels.name=monitoring"
    found = policies(manifests("production", label))
    wanted = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    assert {name: rule["from"] for name, policy in found.items() for rule in policy.get("ingress", ())} == (
        dict.fromkeys([*Role, "page"], wanted)
    )


def test_outer_servers_are_reached_in_their_networks_only():
    networks = yaml.safe_load(values_file("operators").read_text())["networkPolicy"]
    for name, policy in policies(manifests("operators")).items():
        blocks = {
            port["port"]: [peer["ipBlock"]["cidr"] for peer in rule.get("to", [])]
            for rule in policy["egress"]
            for port in rule["ports"]
        }
        for port, cidrs in blocks.items():
            is_kafka, is_redis = (port, "TCP") in KAFKA, (port, "TCP") in REDIS
            wanted = networks["kafkaCidrs"] if is_kafka else networks["redisCidrs"] if is_redis else []
            assert cidrs == wanted, (name, port)


def test_extra_rules_apply_to_components_that_reach_kafka_or_redis():
    found = policies(manifests("demo", "networkPolicy.extraEgress[0].ports[0].port=8443"))
    with_more = {name for name, policy in found.items() if {"ports": [{"port": 8443}]} in policy.get("egress", [])}
    assert with_more == found.keys() - {"kafka", "redis"}


# --- a demo's own servers ---------------------------------------------------------------------------------------------


def peers(policy):
    """Port -> component, of the rules that lead to pods of the release."""
    return {
        port["port"]: peer["podSelector"]["matchLabels"][COMPONENT]
        for rule in policy.get("egress", [])
        for port in rule["ports"]
        for peer in rule.get("to", [])
    }


def let_in(policy):
    (rule,) = policy["ingress"]
    ((peer,), (port,)) = rule["from"], rule["ports"]
    selector = peer["podSelector"]
    assert selector["matchLabels"] == {"app.kubernetes.io/name": "spojoin", "app.kubernetes.io/instance": RELEASE}
    (expression,) = selector["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (COMPONENT, "In")
    return port["port"], set(expression["values"])


@pytest.mark.parametrize("role", Role)
def test_the_charts_own_servers_are_reached_at_their_pods(role):
    policy = policies(manifests("demo"))[role]
    assert peers(policy) == {9092: "kafka", 6379: "redis"}
    asks = KUBERNETES if role is Role.CONTROLLER else set()
    assert reached(policy) == NAMES | {(9092, "TCP"), (6379, "TCP")} | asks


@pytest.mark.parametrize("name", ["load", "test", "check-query"])
def test_components_without_redis_reach_kafka_alone(name):
    policy = policies(manifests("demo"))[name]
    assert (peers(policy), reached(policy)) == ({9092: "kafka"}, NAMES | {(9092, "TCP")})


def test_the_charts_own_servers_let_in_the_components_that_use_them():
    found = policies(manifests("demo"))
    for server, port in (("kafka", 9092), ("redis", 6379)):
        clients = {name for name, policy in found.items() if peers(policy).get(port) == server}
        assert let_in(found[server]) == (port, clients)
    assert let_in(found["redis"])[1] == {*Role, "page"}


def test_the_broker_reaches_only_itself_and_redis_nothing():
    found = policies(manifests("demo"))
    assert (peers(found["kafka"]), reached(found["kafka"])) == ({9092: "kafka"}, NAMES | {(9092, "TCP")})
    assert "egress" not in found["redis"]


# --- whom the development broker serves -------------------------------------------------------------------------------


def said_with(folder, *settings):
    said, _ = notes(folder, *(part for each in ("demo.enabled=true", *settings) for part in ("--set", each)))
    return " ".join(said.split())


@pytest.mark.parametrize(
    ("value", "selectors", "words"),
    [
        ("null", [], "serves the pods of this release only (devKafka.servesNamespaces adds others)"),
        (
            "{lab}",
            [{"matchLabels": {NAMESPACE_NAME: "lab"}}],
            "serves the pods of this release and of the namespace lab, without a password",
        ),
        (
            "{lab,joins}",
            [{"matchLabels": {NAMESPACE_NAME: each}} for each in ("lab", "joins")],
            "serves the pods of this release and of the namespaces lab, joins, without a password",
        ),
        ("{*}", [{}], "serves every pod of the cluster, without a password"),
    ],
)
def test_a_value_lets_other_namespaces_use_the_broker_and_notes_say_whom(tmp_path, value, selectors, words):
    setting = f"devKafka.servesNamespaces={value}"
    own, found = (policies(manifests("demo", *settings)) for settings in ((), (setting,)))
    (rule,) = found["kafka"]["ingress"]
    assert rule["from"] == own["kafka"]["ingress"][0]["from"] + [{"namespaceSelector": each} for each in selectors]
    assert {**found, "kafka": None} == {**own, "kafka": None}
    assert f"Its Kafka, demo-spojoin-kafka.joins.svc:9092, {words}" in said_with(tmp_path, setting)


def test_without_policies_the_broker_serves_everyone_and_notes_say_so(tmp_path):
    assert "serves every pod of the cluster" in said_with(tmp_path, "networkPolicy.enabled=false")


def test_notes_speak_of_no_broker_that_is_not_there(tmp_path):
    assert "Its Kafka," not in said_with(tmp_path, "devKafka.enabled=false", "kafka.bootstrapServers=kafka:9092")


@pytest.mark.parametrize("namespace", ["Lab", "lab_1", "-lab"])
def test_what_is_no_namespace_is_refused(namespace):
    done = template("--set", "demo.enabled=true", "--set", f"devKafka.servesNamespaces={{{namespace}}}")
    assert done.returncode != 0
    assert "devKafka.servesNamespaces.0: Does not match pattern" in done.stderr
