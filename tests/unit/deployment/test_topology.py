"""What the chart says of roles and topics is what the code says: rights, topics, networks."""

import json
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import pytest
import yaml

from spojoin.protocol.access import Person, rights
from spojoin.protocol.topology import TOPOLOGY, Role, Topic, topic_config
from spojoin.query.load import parse_query
from spojoin.runtime.topics import Topics

CHART = Path(__file__).parents[3] / "helm/spojoin"
HELM = Path(sys.executable).parent / "helm"
VALUES = yaml.safe_load((CHART / "ci/operators-values.yaml").read_text())
QUERY = parse_query(VALUES["query"])
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
WORKERS_MAX, PREDICATES_MAX = DEFAULTS["pojoin"]["maxReplicas"], DEFAULTS["strimzi"]["topics"]["predicates"]
TOPICS = Topics.of(QUERY, WORKERS_MAX, {})
BYTES_MAX = VALUES["settings"]["results_bytes_max"]
PRINCIPALS = [*Role, *(person for person in Person if person is not Person.TOPICS)]


def manifests(*settings):
    command = [HELM, "template", "demo", CHART, "--values", CHART / "ci/operators-values.yaml"]
    options = [part for setting in settings for part in ("--set-json", setting)]
    versions = [part for each in ("keda.sh/v1alpha1", "kafka.strimzi.io/v1") for part in ("--api-versions", each)]
    done = subprocess.run([*command, *options, *versions], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def of_kind(kind, documents):
    return [document for document in documents if document["kind"] == kind]


@pytest.fixture(scope="module")
def shown():
    return manifests()


def allowed(user):
    return {
        (acl["resource"]["type"], acl["resource"]["name"], operation, acl["resource"]["patternType"] == "prefix")
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
        if acl["resource"]["patternType"] in ("literal", "prefix")
    }


def test_every_principal_is_a_user_with_its_rights(shown):
    users = {document["metadata"]["name"]: document for document in of_kind("KafkaUser", shown)}
    assert users.keys() == {f"demo-spojoin-{principal}" for principal in PRINCIPALS}
    for principal in PRINCIPALS:
        wanted = {astuple(each) for each in rights(principal, QUERY.name, TOPICS.inputs)}
        assert allowed(users[f"demo-spojoin-{principal}"]) == wanted


def test_who_makes_topics_is_a_user_unless_strimzi_makes_them():
    users = of_kind("KafkaUser", manifests("strimzi.topics.enabled=false"))
    (maker,) = [document for document in users if document["metadata"]["name"] == "demo-spojoin-topics"]
    wanted = {astuple(each) for each in rights(Person.TOPICS, QUERY.name, TOPICS.inputs)}
    assert allowed(maker) == wanted


def test_topics_are_those_that_the_services_make(shown):
    found = {document["spec"]["topicName"]: document["spec"] for document in of_kind("KafkaTopic", shown)}
    kept = {TOPICS.name(Topic.RESULTS): 1} | {f"{topic}.dlq": 1 for topic in TOPICS.inputs}
    # No template counts predicates: there is room for many, and the install checks that it is enough.
    partials = {TOPICS.name(Topic.PARTIALS): PREDICATES_MAX}
    assert {name: topic["partitions"] for name, topic in found.items()} == TOPICS.trimmed() | kept | partials
    for name, topic in found.items():
        wanted = topic_config(BYTES_MAX if name in kept else None)
        assert topic["config"] == wanted | VALUES["strimzi"]["topics"]["config"]
        assert topic["replicas"] == VALUES["strimzi"]["topics"]["replicas"]


def test_an_input_topic_of_another_name_is_followed():
    named = json.dumps({"pickups": "rides"})
    found = manifests(f"settings.input_topics={json.dumps(named)}")
    assert "rides.dlq" in {document["spec"]["topicName"] for document in of_kind("KafkaTopic", found)}


def policies(documents):
    return {
        document["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: document["spec"]
        for document in of_kind("NetworkPolicy", documents)
    }


def ports(policy):
    return {port["port"] for rule in policy.get("egress", []) for port in rule["ports"]}


def test_every_pod_has_a_policy(shown):
    kinds = ("Deployment", "StatefulSet", "Job")
    pods = [document["spec"]["template"] for kind in kinds for document in of_kind(kind, shown)]
    assert {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods} == policies(shown).keys()


def test_roles_reach_what_the_table_says_and_no_more(shown):
    kafka, redis, kubernetes, names = {9092, 9093, 9094}, {6379, 6380}, {443, 6443}, {53}
    found = policies(shown)
    for edge in TOPOLOGY:
        wanted = names | kafka | redis | (kubernetes if edge.role is Role.CONTROLLER else set())
        assert ports(found[edge.role]) == wanted, edge.role
        assert found[edge.role]["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    assert ports(found["job-produce"]) == ports(found["job-feed"]) == names | kafka
    assert ports(found["job-check"]) == names | kafka | redis
    assert ports(found["job-chaos"]) == names | kafka | redis | kubernetes
    assert ports(found["check-query"]) == names | kafka
    assert all("ingress" not in policy for name, policy in found.items() if name.startswith("job-"))


def test_outer_servers_are_reached_in_their_networks_only(shown):
    blocks = {
        port["port"]: [peer["ipBlock"]["cidr"] for peer in rule.get("to", [])]
        for rule in policies(shown)["sink"]["egress"]
        for port in rule["ports"]
    }
    assert blocks[9092] == VALUES["networkPolicy"]["kafkaCidrs"]
    assert blocks[6379] == VALUES["networkPolicy"]["redisCidrs"]


def test_the_charts_own_servers_are_reached_by_their_pods_and_reached_by_no_others():
    done = subprocess.run(
        [HELM, "template", "demo", CHART, "--set", "demo.enabled=true"], capture_output=True, text=True, check=True
    )
    found = policies(list(yaml.safe_load_all(done.stdout)))
    peers = {
        port["port"]: rule["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in found["sink"]["egress"]
        for port in rule["ports"]
        if "to" in rule
    }
    assert peers == {9092: "kafka", 6379: "redis"}
    ((expression,),) = [
        peer["podSelector"]["matchExpressions"] for rule in found["redis"]["ingress"] for peer in rule["from"]
    ]
    assert set(expression["values"]) == {*Role, "page"}
    assert "egress" not in found["redis"]
