"""Kafka's topics and users as the chart makes them: the services' own, with exactly the protocol's rights."""

import json
from dataclasses import astuple

import pytest
import yaml

from spojoin.protocol.access import Person, rights
from spojoin.protocol.topic_config import TopicKind, kind_of, topic_configs
from spojoin.protocol.topology import Role, Topic
from spojoin.query.load import parse_query
from spojoin.runtime.topics import Topics
from tests.support.chart import CHART, NAMESPACE, manifests, of_kind, pods, render, values_file

VALUES = yaml.safe_load(values_file("operators").read_text())
QUERY = parse_query(VALUES["query"])
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
WORKERS_MAX, PREDICATES_MAX = 8, DEFAULTS["strimzi"]["topics"]["predicates"]
TOPICS = Topics.for_query(QUERY, WORKERS_MAX, {})
CONFIGS = topic_configs({}, VALUES["settings"]["results_bytes_max"])
PRINCIPALS = [*Role, *(person for person in Person if person is not Person.TOPICS)]


def allowed(user):
    """Every right in the protocol's notation; a pattern that is neither a name nor a prefix fails."""
    acls = user["spec"]["authorization"]["acls"]
    found = [
        (acl["resource"]["type"], acl["resource"]["name"], operation, acl["resource"]["patternType"] == "prefix")
        for acl in acls
        for operation in acl["operations"]
    ]
    assert len(found) == len(set(found))
    assert {acl["resource"]["patternType"] for acl in acls} <= {"literal", "prefix"}
    assert all(acl.keys() == {"resource", "operations"} for acl in acls), "any host, and nothing denied"
    return set(found)


def users_of(documents):
    return {document["metadata"]["name"]: document for document in of_kind("KafkaUser", documents)}


def test_every_principal_is_a_user_with_its_rights():
    users = users_of(manifests("operators"))
    assert users.keys() == {f"demo-spojoin-{principal}" for principal in PRINCIPALS}
    for principal in PRINCIPALS:
        wanted = {astuple(each) for each in rights(principal, QUERY.name, TOPICS.inputs)}
        assert allowed(users[f"demo-spojoin-{principal}"]) == wanted


def test_the_maker_of_topics_is_a_user_unless_strimzi_makes_them():
    maker = users_of(manifests("operators", "strimzi.topics.enabled=false"))["demo-spojoin-topics"]
    assert allowed(maker) == {astuple(each) for each in rights(Person.TOPICS, QUERY.name, TOPICS.inputs)}


def test_users_have_passwords_and_simple_rights_in_the_named_cluster():
    for user in users_of(manifests("operators")).values():
        assert user["spec"]["authentication"] == {"type": "scram-sha-512"}
        assert user["spec"]["authorization"]["type"] == "simple"
        assert user["metadata"]["labels"]["strimzi.io/cluster"] == "streams"


def test_topics_and_users_are_where_strimzi_looks_for_them():
    def places(*settings):
        found = manifests("operators", *settings)
        return {each["metadata"]["namespace"] for each in of_kind("KafkaTopic", found) + of_kind("KafkaUser", found)}

    assert places() == {NAMESPACE}
    assert places("strimzi.namespace=kafka") == {"kafka"}


def test_topics_are_those_that_the_services_make():
    found = {each["spec"]["topicName"]: each for each in of_kind("KafkaTopic", manifests("operators"))}
    kept = {TOPICS.name(Topic.RESULTS): 1} | {f"{topic}.dlq": 1 for topic in TOPICS.inputs}
    # No template counts predicates: the topic has room for many, and the install checks that they fit.
    partials = {TOPICS.name(Topic.PARTIALS): PREDICATES_MAX}
    partitions = {name: topic["spec"]["partitions"] for name, topic in found.items()}
    assert partitions == TOPICS.trimmed(set(Topic) - {Topic.PRESENCE}) | kept | partials
    for name, topic in found.items():
        wanted = CONFIGS.for_kind(
            TopicKind.DLQ if name.endswith(".dlq") else kind_of(Topic(name.removeprefix("nearby.")))
        )
        assert topic["spec"]["config"] == wanted | {"min.insync.replicas": "2"}
        assert topic["spec"]["replicas"] == VALUES["strimzi"]["topics"]["replicas"]
        assert topic["metadata"]["labels"]["strimzi.io/cluster"] == "streams"


def test_answerers_have_the_partitions_and_rights_of_their_roles():
    found = manifests("operators", "packing=answerer", "pojoin.maxReplicas=5")
    topics = {each["spec"]["topicName"]: each["spec"]["partitions"] for each in of_kind("KafkaTopic", found)}
    assert topics[TOPICS.name(Topic.MATCHES)] == 2 * 5
    users = {name.removeprefix("demo-spojoin-") for name in users_of(found)}
    assert "pojoin" in users
    assert not {"mutable", "logical-and", "mutable-pojoin-logical-and"} & users
    worker = allowed(users_of(found)["demo-spojoin-pojoin"])
    assert ("topic", TOPICS.name(Topic.RUNS), "Write", False) in worker
    assert ("topic", TOPICS.name(Topic.MATCHES), "Write", False) in worker


def test_users_follow_a_renamed_input_topic():
    named = json.dumps(json.dumps({"pickups": "rides"}))
    found = render("--values", values_file("operators"), "--set-json", f"settings.input_topics={named}")
    assert "rides.dlq" in {document["spec"]["topicName"] for document in of_kind("KafkaTopic", found)}
    assert ("topic", "rides", "Write", False) in allowed(users_of(found)["demo-spojoin-feed"])


# --- who is who -------------------------------------------------------------------------------------------------------


def logins(documents):
    """Component -> user, Secret: of every container that logs in."""
    return {
        component: (pod.variables["SPOJOIN_KAFKA_USERNAME"], pod.variables["SPOJOIN_KAFKA_PASSWORD"].split("/")[0])
        for component, pod in pods(documents).items()
        if "SPOJOIN_KAFKA_USERNAME" in pod.variables
    }


def test_each_component_is_a_user_of_its_own():
    components = [*(role.value for role in Role), "page", "topics"]
    wanted = {each: (f"joins-{each}", f"kafka-joins-{each}") for each in components}
    wanted["check-query"] = wanted["router"]
    assert logins(manifests("production")) == wanted
    assert set(components) <= {*Role, *Person}


def test_users_that_components_log_in_as_are_those_that_strimzi_makes():
    documents = manifests("operators")
    used = logins(documents)
    assert set(used) > {role.value for role in Role}
    assert {each for login in used.values() for each in login} <= users_of(documents).keys()


@pytest.mark.parametrize(("job", "person"), [("produce", "feed"), ("feed", "feed"), ("check", "check")])
def test_jobs_log_in_as_the_person_whose_rights_they_need(job, person):
    assert logins(manifests("operators"))[f"job-{job}"][0] == f"demo-spojoin-{person}"
