"""The real broker's retention of each kind of topic, and of results that all expired while nothing was answered."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from spojoin.errors import ConfigurationError
from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import NAMES, TopicKind, topic_configs
from spojoin.protocol.topology import Topic, topic_name
from tests.support.readings import TUPLES, digest, expected, feed, query_text
from tests.support.served import PATIENCE_S, SINK_ALONE, SIZES, Served, served

pytestmark = pytest.mark.integration

#: The interval at which the sink repeats its position here, and the longer time for which results are kept.
RESTATED_MS, KEPT_MS = 1_000, 8_000
HALF = TUPLES // 2


@pytest.fixture
def log(cluster: LocalCluster) -> KafkaLog:
    return KafkaLog(KafkaConfig(cluster.broker.bootstrap))


def configs_of(bootstrap: str, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in future.result().items()}


def test_the_names_that_are_known_are_the_brokers(cluster: LocalCluster, log: KafkaLog, unique: str) -> None:
    log.create_topics({unique: 1})
    assert tuple(sorted(configs_of(cluster.broker.bootstrap, unique))) == NAMES


def test_a_topic_is_kept_as_its_kind_is(cluster: LocalCluster, log: KafkaLog, unique: str) -> None:
    given: dict[str, dict[str, object]] = {
        "all": {"replication.factor": 1, "min.insync.replicas": 1},
        "results": {"retention.ms": 3_600_000, "compression.type": "zstd"},
        "inputs": {"compression.type": "lz4"},
    }
    configs = topic_configs(given)
    for kind in TopicKind:
        log.create_topics({f"{unique}.{kind}": 1}, configs.for_kind(kind))
    found = {kind: configs_of(cluster.broker.bootstrap, f"{unique}.{kind}") for kind in TopicKind}
    assert {kind: each["compression.type"] for kind, each in found.items()} == {
        "internal": "producer",
        "results": "zstd",
        "dlq": "producer",
        "inputs": "lz4",
        "tables": "producer",
    }
    assert (found[TopicKind.RESULTS]["retention.ms"], found[TopicKind.RESULTS]["retention.bytes"]) == (
        "3600000",
        str(4 << 30),
    )
    assert found[TopicKind.DLQ]["retention.bytes"] == str(256 << 20)
    assert (found[TopicKind.INTERNAL]["retention.ms"], found[TopicKind.INTERNAL]["retention.bytes"]) == ("-1", "-1")
    assert found[TopicKind.TABLES]["cleanup.policy"] == "compact"


def test_inputs_are_kept_as_the_cluster_keeps_topics(cluster: LocalCluster, log: KafkaLog, unique: str) -> None:
    log.create_topics({unique: 1}, topic_configs({}).for_kind(TopicKind.INPUTS))
    admin = AdminClient({"bootstrap.servers": cluster.broker.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, unique)]).values()
    own = {name for name, entry in future.result().items() if entry.source == 1}  # set for this topic
    assert own == {"cleanup.policy", "max.message.bytes"}


def test_a_refused_configuration_is_named(log: KafkaLog, unique: str) -> None:
    configs = topic_configs({"results": {"compression.type": "zip"}})
    with pytest.raises(ConfigurationError, match=rf"topic '{unique}' could not be made: .*zip.*see the setting topics"):
        log.create_topics({unique: 1}, configs.for_kind(TopicKind.RESULTS))


@pytest.fixture
def often_restated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every Python process that starts from now on repeat the result position often."""
    hook = f"import spojoin.protocol.topic_config as t; t.RESTATED_MS = {RESTATED_MS}\n"
    (tmp_path / "sitecustomize.py").write_text(hook)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.usefixtures("often_restated")
def test_results_that_time_has_taken_don_t_lose_the_position(own_cluster: LocalCluster, tmp_path: Path) -> None:
    """All results expire while no row comes; then every process dies, and the rest is answered exactly."""
    bootstrap, name = own_cluster.broker.bootstrap, "restated"
    log = KafkaLog(KafkaConfig(bootstrap))
    results = LogPartition(topic_name(name, Topic.RESULTS), 0)
    with served(own_cluster, tmp_path, query_text(name), 1, SIZES, restarts_max=20, packing=SINK_ALONE) as running:
        log.configure({results.topic: {"retention.ms": str(KEPT_MS), "segment.ms": str(2 * RESTATED_MS)}})
        feed(bootstrap, running.topics["readings"], threading.Event(), 0.0, 0, HALF)
        running.read_until(HALF)
        answered = log.end(results)
        _wait_until_gone(running, log, results, answered)
        log.configure({results.topic: {"retention.ms": "-1"}})  # on a busy machine a restart takes longer than that
        _wait_until_gone(running, log, results, answered)
        for service in running.services:
            running.kill(service)
        feed(bootstrap, running.topics["readings"], threading.Event(), 0.0, HALF, TUPLES)
        running.read_until(TUPLES)
    assert [row[0] for row in running.output.rows] == list(range(TUPLES))
    assert digest(iter(running.output.rows)) == digest(expected())


def _wait_until_gone(running: Served, log: KafkaLog, results: LogPartition, before: int) -> None:
    """Wait until the broker holds no record from before an offset, but still the position."""
    deadline = time.monotonic() + PATIENCE_S
    while not before <= log.bounds(results).earliest < log.end(results):
        running.supervisor.tend()
        running.output.read_on(0.2)
        assert time.monotonic() < deadline, f"{log.bounds(results)}, and results ended at {before}"
