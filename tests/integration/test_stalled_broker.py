"""A broker that stands still for seconds on a busy machine stays the leader of its partitions."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from loadgen.load.connection import Connection
from spojoin.local.cluster import LocalCluster
from tests.support.stalled import stalled

pytestmark = pytest.mark.integration

STALL_S = 4.0
#: a session that has timed out is noticed within a quarter of a second
NOTICED_S = 2.0


def leader_epoch(admin: AdminClient, topic: str) -> int:
    """How often the partition has elected a leader."""
    (found,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}, request_timeout=10).values()
    epoch = found.result().leader_epoch
    assert epoch is not None
    return epoch


def test_a_stall_takes_no_partition_from_the_only_broker(own_cluster: LocalCluster, unique: str) -> None:
    broker = own_cluster.broker
    with Connection(broker.bootstrap).opened() as log:
        log.create_topics({unique: 1})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    before = leader_epoch(admin, unique)
    with stalled(broker):
        time.sleep(STALL_S)
    time.sleep(NOTICED_S)
    assert leader_epoch(admin, unique) == before
