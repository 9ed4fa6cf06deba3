"""Layouts as services on the real broker and Redis: three workers over the log, one of which is killed midway.

These layouts have no mutable joiners, batches or logical AND: each worker keeps its share of the window, and a
restarted worker reads its share from the log. The rows are those of a nested loop over the inputs, in order.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from spojoin.local.cluster import LocalCluster
from spojoin.model import Query
from spojoin.protocol.topology import BATCH_ROLES, Role, Topic, topic_name
from tests.support.long import long_only
from tests.support.readings import QUERY, TUPLES, expected, feed
from tests.support.served import SIZES, WORKERS_ALONE, served

pytestmark = pytest.mark.integration

WORKERS = 3
PACE_S, SLOW_PACE_S = 0.03, 0.3
KILLED = "pojoin-1"


#: An equality on the second column, the key of layouts that partition by key.
OPERATORS = {"hp": "="}


@pytest.fixture(scope="module")
def nested_loop() -> dict[str, list[tuple[int, ...]]]:
    return {operator: list(expected(operator)) for operator in (">=", "=")}


@pytest.mark.parametrize("layout", ["scale_join", "sta", long_only("hp")])
def test_no_result_misses_a_killed_worker(
    cluster: LocalCluster, tmp_path: Path, nested_loop: dict[str, list[tuple[int, ...]]], layout: str
) -> None:
    operator = OPERATORS.get(layout, ">=")
    text = QUERY.replace("NAME", f"layout-{layout}").replace(">=", operator)
    text += f"layout: {{name: {layout}, workers: {WORKERS}}}\n"
    without = () if layout == "sta" else (Role.PREDICTOR,)
    bootstrap, stop = cluster.broker.bootstrap, threading.Event()
    with (
        served(cluster, tmp_path, text, WORKERS, SIZES, without=without, packing=WORKERS_ALONE) as running,
        ThreadPoolExecutor() as pool,
    ):
        assert not [name for name in running.services if name.startswith(tuple(BATCH_ROLES))]
        try:
            feeding = pool.submit(feed, bootstrap, running.topics["readings"], stop, PACE_S)
            running.read_until(TUPLES // 2)
            running.kill(KILLED)
            running.read_until(TUPLES)
            feeding.result()
            if layout == "sta":  # it plans only ahead of the results, which a busy machine lets get past it: rows go on
                more = pool.submit(feed, bootstrap, running.topics["readings"], stop, SLOW_PACE_S)
                running.until(lambda: plans(bootstrap, running.query) > 0, lambda: "no plan with hot keys")
                stop.set()
                more.result()
        finally:
            stop.set()
    assert running.output.rows[:TUPLES] == nested_loop[operator]


def plans(bootstrap: str, query: Query) -> int:
    """The number of plans with hot keys that the predictor sent."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic_name(query.name, Topic.PLAN), 0), 10.0)[1])
    finally:
        consumer.close()
