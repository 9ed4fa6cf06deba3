"""A release with intakes: a Deployment and a number for each, their topics, the registry, and none by default."""

from __future__ import annotations

from spojoin.protocol.topology import Role
from tests.support.chart import manifests, of_kind, pods, template

ALL_IN_ONE = "packing=together"
REGISTRY = ("schemaRegistry.url=https://registry", "schemaRegistry.username=joins", "schemaRegistry.existingSecret=s")


def intakes(documents):
    return [each for each in of_kind("Deployment", documents) if "-intake" in each["metadata"]["name"]]


def block_topics(documents):
    topics = of_kind("KafkaTopic", documents)
    partitions = {each["spec"]["topicName"]: each["spec"]["partitions"] for each in topics}
    return {name: count for name, count in partitions.items() if name.endswith((".blocks", ".positions"))}


def test_each_intake_has_a_deployment_with_its_number():
    for settings in ((), (ALL_IN_ONE,)):
        found = intakes(manifests("demo", "intake.replicas=2", *settings))
        assert [each["metadata"]["name"] for each in found] == [f"demo-spojoin-intake-{n}" for n in range(2)]
        for number, each in enumerate(found):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            told = {entry["name"]: entry.get("value") for entry in container["env"]}
            assert (told["SPOJOIN_INTAKE"], told["SPOJOIN_INTAKES"]) == (str(number), "2")
            assert container["args"] == ["service", "intake"]
            assert each["spec"]["selector"]["matchLabels"]["intake"] == str(number)


def test_the_blocks_get_a_partition_for_each_intake():
    found = block_topics(manifests("operators", "intake.replicas=3"))
    assert found == {"nearby.blocks": 3, "nearby.positions": 1}


def test_without_intakes_nothing_of_them_is_installed():
    documents = manifests("operators", "intake.replicas=0")
    assert not intakes(documents)
    assert not block_topics(documents)
    assert not [each for each in documents if each["metadata"]["name"].endswith("-intake")]


def test_intakes_ask_the_registry():
    intake = pods(manifests("demo", "intake.replicas=1", *REGISTRY))[Role.INTAKE]
    assert intake.variables["SPOJOIN_REGISTRY_URL"] == "https://registry"
    assert "SPOJOIN_REGISTRY_PASSWORD" in intake.variables


def test_intakes_have_a_user_a_policy_and_a_budget():
    found = manifests("operators", "intake.replicas=2")
    for kind in ("KafkaUser", "NetworkPolicy", "PodDisruptionBudget"):
        assert "demo-spojoin-intake" in {each["metadata"]["name"] for each in of_kind(kind, found)}, kind


def test_intakes_have_standbys():
    found = intakes(manifests("demo", "intake.replicas=2", "standbys=1"))
    names = [each["metadata"]["name"].removeprefix("demo-spojoin-") for each in found]
    assert sorted(names) == ["intake-0", "intake-1", "intake-b-0", "intake-b-1"]


def test_a_setting_that_would_contradict_the_value_ends_the_install():
    done = template("--set", "demo.enabled=true,settings.intakes=2")
    assert "settings.intakes is set by the chart itself: set intake.replicas instead" in done.stderr
