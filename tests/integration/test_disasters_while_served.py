"""Topics are lost while services run, and a query moves to another Kafka, as RUNBOOK.md describes.

The ordered results of all generations equal a nested loop over all rows: none is missing, wrong or duplicated.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spojoin.local.broker import LocalBroker
from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import ServiceError
from spojoin.protocol.topology import Topic
from tests.support.disasters import BEFORE, HARMLESS, MORE, MOVE, RESTORE, AllResults, DisasterStage, delete_topics
from tests.support.served import PATIENCE_S, committed_reader

pytestmark = pytest.mark.integration


@pytest.fixture
def stage(cluster: LocalCluster, tmp_path: Path, unique: str) -> DisasterStage:
    return DisasterStage(cluster, tmp_path, f"lost-{unique}")


def test_topics_are_lost_while_services_run(stage: DisasterStage) -> None:
    """Some topics are written again; the loss of the log ends the services; and running services hand over."""
    with stage.served() as running:
        stage.send(BEFORE)
        stage.read_all(running)
        for lost in ((Topic.MATCHES,), (Topic.PARTIALS, Topic.RUNS), HARMLESS):
            delete_topics(stage.bootstrap, [*stage.topics(*lost), f"{stage.topic}.dlq"])
            stage.send(MORE)
            stage.read_all(running)
        stage.check({1})
        delete_topics(stage.bootstrap, stage.topics(Topic.FRAMES))
        with pytest.raises(ServiceError, match="frames ends after"):
            stage.read_all(running, stage.rows + 1)
    stage.send(MORE)
    stage.run(RESTORE)
    with stage.served() as running:
        stage.read_all(running)
        stage.check({1, 2})
        assert "handed over by themselves" in stage.run(RESTORE)
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1, 2, 3})


# -- another Kafka


def copied(old: str, new: str, topic: str, first: int) -> None:
    """Copy a topic's messages from offset `first` on, as MirrorMaker does: in order, with other offsets."""
    admin = AdminClient({"bootstrap.servers": new})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result()
    consumer = committed_reader(old, topic, first)
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    producer, at = Producer({"bootstrap.servers": new}), first
    while at < end:
        for message in consumer.consume(500, 1.0):
            at = message.offset() + 1
            stamp = message.timestamp()[1]
            producer.produce(topic, message.value(), message.key(), 0, timestamp=stamp, headers=message.headers() or [])
    assert producer.flush(PATIENCE_S) == 0
    consumer.close()


def test_a_query_moves_to_another_kafka_whose_offsets_differ(stage: DisasterStage) -> None:
    stage.answer()
    stage.send(MORE)  # not answered yet when the query moves
    with LocalBroker(stage.cluster.children) as broker:
        moved = LocalCluster(stage.cluster.children, broker, stage.cluster.redis)
        copied(stage.bootstrap, broker.bootstrap, stage.topic, 700)
        said = stage.run(MOVE, **{"new-kafka:9092": broker.bootstrap})
        assert f"{stage.topic} offset {BEFORE - 700}" in said.replace("/0", "")
        answered, stage.results = stage.results, AllResults(broker.bootstrap, stage.name)
        stage.results.rows, stage.results.generations = answered.rows, answered.generations
        stage.cluster = moved
        with stage.served() as running:
            stage.send(MORE)
            stage.read_all(running)
    stage.check({1, 2})
