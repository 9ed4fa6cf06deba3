"""How topics are kept: defaults by kind, and what a user may say of them."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.protocol.topic_config import DEFAULTS, RESTATED_MS, RESULTS_MS_MIN, TopicKind, kind_of, topic_configs
from spojoin.protocol.topology import Topic


def test_internal_topics_are_kept_until_they_are_trimmed_and_give_the_disk_back():
    config = topic_configs({}).for_kind(TopicKind.INTERNAL)
    assert (config["retention.ms"], config["retention.bytes"], config["cleanup.policy"]) == ("-1", "-1", "delete")
    assert int(config["max.message.bytes"]) < int(config["segment.bytes"]) < 128 << 20


def test_what_people_read_is_limited_by_bytes_which_leave_the_latest():
    for kind in (TopicKind.RESULTS, TopicKind.DLQ):
        config = topic_configs({}).for_kind(kind)
        assert config["retention.ms"] == "-1"
        assert 0 < int(config["retention.bytes"]) <= 4 << 30


def test_of_inputs_nothing_is_said_that_the_cluster_may_decide():
    assert topic_configs({}).for_kind(TopicKind.INPUTS).keys() == {"cleanup.policy", "max.message.bytes"}


def test_what_is_said_of_a_kind_counts_before_what_is_said_of_all_and_both_before_the_defaults():
    given = {
        "all": {"min.insync.replicas": 2, "segment.ms": 1},
        "results": {"segment.ms": 2, "retention.bytes": 1 << 30},
    }
    configs = topic_configs(given)
    assert configs.for_kind(TopicKind.RESULTS) == {
        **DEFAULTS[TopicKind.RESULTS],
        "min.insync.replicas": "2",
        "segment.ms": "2",
        "retention.bytes": str(1 << 30),
    }
    assert configs.for_kind(TopicKind.INTERNAL)["segment.ms"] == "1"


def test_the_limit_of_results_in_an_earlier_form_holds_where_topics_says_nothing():
    configs = topic_configs({"dlq": {"retention.bytes": 2 << 20}}, 3 << 20)
    assert configs.for_kind(TopicKind.RESULTS)["retention.bytes"] == str(3 << 20)
    assert configs.for_kind(TopicKind.DLQ)["retention.bytes"] == str(2 << 20)


def test_each_topic_has_a_kind():
    kept = {Topic.RESULTS: TopicKind.RESULTS, Topic.DEAD: TopicKind.DLQ, Topic.INPUT: TopicKind.INPUTS}
    assert {topic: kind_of(topic) for topic in Topic} == dict.fromkeys(Topic, TopicKind.INTERNAL) | kept


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"result": {}}, r"topics: unknown kind 'result'.*did you mean 'results'"),
        ({"results": {"retention.mss": 1}}, r"topics\.results: unknown configuration.*did you mean 'retention\.ms'"),
        ({"internal": {"retention.ms": 1}}, r"topics\.internal: retention\.ms could delete what is still needed"),
        ({"all": {"retention.bytes": 1 << 30}}, r"topics\.all: retention\.bytes is said of single kinds: results, dlq"),
        ({"results": {"cleanup.policy": "compact"}}, r"topics\.results: cleanup\.policy follows from what spojoin"),
        ({"results": {"retention.ms": 1_000}}, r"topics\.results: retention\.ms is '1000'.*at least 600000, or -1 for"),
        ({"results": {"retention.bytes": 0}}, r"topics\.results: retention\.bytes is '0'.*at least 1048576, or -1 for"),
        ({"internal": {"segment.bytes": 1 << 20}}, r"topics\.internal: segment\.bytes is '1048576'.*at least 75497472"),
        ({"results": {"retention.ms": "7d"}}, r"topics\.results: retention\.ms is '7d'; expected a whole number"),
        ({"all": {"replication.factor": 1, "min.insync.replicas": 2}}, r"topics\.internal: min\.insync\.replicas is 2"),
    ],
)
def test_what_can_t_be_is_refused_with_its_place(given, message):
    with pytest.raises(ConfigurationError, match=message):
        topic_configs(given)


def test_other_makes_of_kafka_have_names_of_their_own():
    assert (
        topic_configs({"inputs": {"redpanda.remote.read": True}}).for_kind(TopicKind.INPUTS)["redpanda.remote.read"]
        == "true"
    )


def test_results_are_kept_for_longer_than_their_position_goes_unsaid():
    assert 2 * RESTATED_MS <= RESULTS_MS_MIN
