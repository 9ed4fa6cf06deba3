"""A release with several sinks: a Deployment and a number for each, the topic's partitions, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.chart import manifests, of_kind, template


def test_each_of_several_sinks_has_a_deployment_with_its_number():
    found = manifests("demo", "sink.replicas=3")
    names = [f"demo-spojoin-sink-{number}" for number in range(3)]
    sinks = [each for each in of_kind("Deployment", found) if "-sink" in each["metadata"]["name"]]
    assert [each["metadata"]["name"] for each in sinks] == names
    for number, each in enumerate(sinks):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        told = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert (told["SPOJOIN_SINK"], told["SPOJOIN_SINKS"]) == (str(number), "3")
        assert each["spec"]["selector"]["matchLabels"]["sink"] == str(number)


def test_the_results_get_a_partition_for_each_sink():
    topics = of_kind("KafkaTopic", manifests("operators", "sink.replicas=3"))
    partitions = {each["spec"]["topicName"]: each["spec"]["partitions"] for each in topics}
    assert {count for name, count in partitions.items() if name.endswith(".results")} == {3}


@pytest.mark.parametrize("packing", ["together", "router+sink"])
def test_a_sink_that_shares_a_process_is_the_only_one(packing):
    done = template("--set", f"demo.enabled=true,packing={packing},sink.replicas=2")
    assert done.returncode != 0
    assert "sink.replicas is 2, and packing" in done.stderr
    assert "set sink.replicas to 1" in done.stderr
