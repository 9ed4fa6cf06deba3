"""How the chart says how topics are kept: one value, for the services and for Strimzi alike."""

from __future__ import annotations

import json

from spojoin.protocol.topic_config import REPLICATION, TopicKind, kind_of, topic_configs
from spojoin.protocol.topology import Topic
from tests.support.chart import manifests, of_kind, pods, render, template, values_file

GIVEN = {
    "all": {"replication.factor": 3, "min.insync.replicas": 2},
    "results": {"retention.bytes": 53_687_091_200, "compression.type": "zstd"},
    "internal": {"segment.bytes": 104_857_600},
}


def with_topics(example, given):
    return render("--values", values_file(example), "--set-json", f"topics.config={json.dumps(given)}")


def test_services_read_what_the_value_says():
    variables = pods(with_topics("production", GIVEN))["router"].variables
    assert json.loads(variables["SPOJOIN_TOPICS"]) == GIVEN
    topic_configs(json.loads(variables["SPOJOIN_TOPICS"]))


def test_without_a_value_the_defaults_hold():
    assert "SPOJOIN_TOPICS" not in pods(manifests("production"))["router"].variables


def test_strimzi_keeps_topics_as_the_services_would():
    given = {**GIVEN, "results": {**GIVEN["results"], "retention.bytes": 1 << 40}}
    found = {each["spec"]["topicName"]: each["spec"] for each in of_kind("KafkaTopic", with_topics("operators", given))}
    configs = topic_configs(given, 1 << 30)
    for name, topic in found.items():
        kind = TopicKind.DLQ if name.endswith(".dlq") else kind_of(Topic(name.removeprefix("nearby.")))
        wanted = dict(configs.for_kind(kind))
        assert topic["replicas"] == int(wanted.pop(REPLICATION))
        assert topic["config"] == {**wanted, "min.insync.replicas": "2"}


def test_only_standbys_have_a_topic_of_beats():
    def names(*settings):
        return {each["spec"]["topicName"] for each in of_kind("KafkaTopic", manifests("operators", *settings))}

    assert names("standbys=1") - names() == {"nearby.presence"}


DELETES = "topics.deleteOnUninstall=true"


def hooks(documents):
    return {each["kind"]: each for each in documents if "delete-topics" in each["metadata"]["name"]}


def test_an_uninstall_deletes_nothing_unless_asked_to():
    assert hooks(manifests("production")) == {}
    assert hooks(manifests("demo", DELETES)) == {}, "its Kafka goes with the release"


def test_internal_topics_are_deleted_after_the_services_are():
    found = hooks(manifests("production", DELETES))
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in found.values()} == {"post-delete"}
    assert found.keys() == {"ConfigMap", "Job"}
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["topics", "/etc/spojoin/query/query.yaml", "--delete", "--yes"]
    gone = {each["metadata"]["name"] for each in manifests("production") if each["kind"] in ("ConfigMap", "Secret")}
    used = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    assert used == {found["ConfigMap"]["metadata"]["name"]}
    assert not used & gone, "what goes with the release can't be mounted any more"
    assert pod.get("serviceAccountName", "default") == "default"


def test_without_a_redis_that_outlives_the_release_nobody_could_say_that_services_have_ended():
    done = template(
        "--values",
        values_file("production"),
        "--set",
        DELETES,
        "--set",
        "redis.url=,redis.username=,redis.existingSecret=,redis.passwordKey=,redis.tlsSecret=",
    )
    assert done.returncode != 0
    assert "topics.deleteOnUninstall needs a Redis" in done.stderr


def test_strimzi_keeps_what_an_uninstall_leaves():
    def kept(*settings):
        topics = of_kind("KafkaTopic", manifests("operators", *settings))
        policies = {each["spec"]["topicName"]: each["metadata"].get("annotations") for each in topics}
        return {name for name, policy in policies.items() if policy == {"helm.sh/resource-policy": "keep"}}

    assert "nearby.frames" in kept()
    assert kept(DELETES) == {"nearby.results", "in.pickups.dlq", "in.Drop_offs.dlq"}


def test_a_value_that_is_no_configuration_is_refused_by_the_schema():
    done = template("--values", values_file("production"), "--set-json", 'topics.config={"results": 7}')
    assert done.returncode != 0
    assert "topics" in done.stderr
