"""Layouts as services on the real broker and Redis: three workers over the log, one of them killed in the middle.

By these layouts there are no mutable joiners, no batches and no logical AND: each worker keeps its share of the window,
and one that is started anew reads it from the log. The rows are those of a nested loop over the inputs, in order.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from test_faults import PATIENCE_S, QUERY, SIZES, TUPLES, Output, expected, feed

from spojoin.cli.services import Deployment, services_of
from spojoin.cli.supervise import Supervisor
from spojoin.protocol.topology import BATCH_ROLES, Role, Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.query.model import Query
from spojoin.runtime.kafka import KafkaConfig, KafkaLog
from spojoin.runtime.local.cluster import LocalCluster

pytestmark = pytest.mark.integration

WORKERS = 3
PACE_S = 0.03
KILLED = "pojoin-1"


#: A key for the layouts that go by one: the operator on the second column.
OPERATORS = {"hp": "="}


@pytest.fixture(scope="module")
def nested_loop() -> dict[str, list[tuple[int, int, int, int]]]:
    return {operator: list(expected(operator)) for operator in (">=", "=")}


@pytest.mark.parametrize("layout", ["scale_join", "sta", "hp"])
def test_a_killed_worker_is_missed_by_no_result(
    cluster: LocalCluster, tmp_path: Path, nested_loop: dict[str, list[tuple[int, int, int, int]]], layout: str
) -> None:
    query_file = tmp_path / "query.yaml"
    operator = OPERATORS.get(layout, ">=")
    query_file.write_text(
        QUERY.replace("NAME", f"layout-{layout}").replace(">=", operator)
        + f"layout: {{name: {layout}, workers: {WORKERS}}}\n"
    )
    query = load_query(query_file)
    topic = f"{query.name}.{input_topic('readings')}"
    bootstrap = cluster.broker.bootstrap
    KafkaLog(KafkaConfig(bootstrap)).create_topics({topic: 1, f"{topic}.dlq": 1})
    settings = {**SIZES, "input_topics": orjson.dumps({"readings": topic}).decode()}
    services = services_of(Deployment(query, query_file, bootstrap, cluster.redis.url, WORKERS, settings))
    assert not [service.name for service in services if service.name.startswith(tuple(BATCH_ROLES))]
    services = [service for service in services if service.name != Role.PREDICTOR or layout == "sta"]
    output, stop = Output(bootstrap, query), threading.Event()
    with Supervisor(cluster.children, tmp_path / "logs", restarts_max=3) as supervisor, ThreadPoolExecutor() as pool:
        supervisor.start(services)
        supervisor.wait_ready()
        try:
            feeding = pool.submit(feed, bootstrap, topic, stop, PACE_S)
            read_until(output, supervisor, TUPLES // 2)
            os.kill(supervisor.pids()[KILLED], signal.SIGKILL)
            read_until(output, supervisor, TUPLES)
            feeding.result()
        finally:
            stop.set()
            output.close()
    assert output.rows == nested_loop[operator]
    if layout == "sta":
        assert plans(bootstrap, query) > 0


def read_until(output: Output, supervisor: Supervisor, rows: int) -> None:
    """Read results until there are so many, restarting what has died."""
    deadline = time.monotonic() + PATIENCE_S
    while len(output.rows) < rows:
        supervisor.tend()
        output.read_on(0.2)
        assert time.monotonic() < deadline, f"{len(output.rows)} of {rows} results"


def plans(bootstrap: str, query: Query) -> int:
    """How often the predictor told hot keys."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic_name(query.name, Topic.PLAN), 0), 10.0)[1])
    finally:
        consumer.close()
