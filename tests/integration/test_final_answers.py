"""Final answers by all services, while these are killed, Redis is lost and the worker count changes.

The ordered answers have the same SHA-256 as a nested loop over the inputs, with one role per process and with all in
one.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import HEARTBEAT, Topic, topic_name
from spojoin.wire.codec import encode
from spojoin.wire.records import WorkerCount
from tests.support import racks
from tests.support.asking_statements import AskingStatement
from tests.support.full_statements import FullStatement
from tests.support.long import long_only
from tests.support.served import SIZES, Served, served

pytestmark = pytest.mark.integration

WORKERS = 2
COLUMNS = ("id", "n", "total", "least", "nearest")
QUERY = f"""
name: final-answers
{racks.STREAMS}
sql: |
  SELECT l.id, COUNT(r.id) AS n, CAST(SUM(r.cooling) AS BIGINT) AS total, MIN(r.draw) AS least,
         ARG_MIN(r.id, r.draw) AS nearest
  FROM racks AS l LEFT JOIN racks AS r ON l.site = r.site AND l.draw <= r.draw AND r.note IS NOT NULL
  WHERE l.cooling > 3
  GROUP BY l
  WINDOW AS (SLIDE INTERVAL '{racks.SLIDE}' ON '{racks.WINDOW}')
  EMIT ON CLOSE
"""


#: How DuckDB sees the racks, which all have the same event time.
SCHEMA = pa.schema([*racks.SCHEMA, ("at", pa.timestamp("us"))])
SIZES_OF = {"is_self": True, "is_time": False, "slide": racks.SLIDE, "length": racks.WINDOW, "at_close": True}
NOTED = "note IS NOT NULL", lambda row: row["note"] is not None


class Racks(AskingStatement):
    schema = SCHEMA


class FullRacks(FullStatement):
    schema = SCHEMA


def rows() -> tuple[tuple[int, racks.Row], ...]:
    return tuple((0, row | {"at": 0}) for row in racks.rows())


def expected() -> list[tuple[object, ...]]:
    """The answers of the left rows that close."""
    items = """l.seq AS n, l.id, COUNT(r.id) AS c, CAST(SUM(r.cooling) AS BIGINT) AS total, MIN(r.draw) AS least,
               ARG_MIN(r.id, r.draw * 1000000 + r.seq) AS nearest"""
    filters = ("cooling > 3", lambda row: row["cooling"] > 3), NOTED
    on = "l.site = r.site AND l.draw <= r.draw"
    answers = Racks("LEFT ", items, "GROUP BY l", on, filters, rows=rows(), **SIZES_OF).of_closed()
    return [row[1:] for answer in answers for row in answer]


FULL_COLUMNS = ("a", "b")
#: A FULL JOIN returns the rows of both sides regardless of their own conditions; void rows have no site or no draw.
FULL = f"""
name: NAME
{racks.STREAMS}
sql: |
  SELECT l.id AS a, r.id AS b
  FROM racks AS l FULL JOIN racks AS r ON l.site = r.site AND l.draw < r.draw AND r.cooling = l.cooling CONDITION
  WINDOW AS (SLIDE INTERVAL '{racks.SLIDE}' ON '{racks.WINDOW}')
  EMIT ON CLOSE
"""
FILTERED = "AND r.note IS NOT NULL"


def joined(*, filtered: bool) -> tuple[int, list[tuple[object, ...]]]:
    """How many rows of either side close, and their results in closing order."""
    items, anything = "l.seq AS n, r.seq AS p, l.id AS a, r.id AS b", ("", None)
    on, filters = (
        "l.site = r.site AND l.draw < r.draw AND r.cooling = l.cooling",
        (anything, NOTED if filtered else anything),
    )
    answers = FullRacks("FULL ", items, "", on, filters, rows=rows(), **SIZES_OF).of_closed()
    return len(answers), [row[2:] for answer in answers for row in answer]


@pytest.fixture(scope="module")
def answers() -> list[tuple[object, ...]]:
    return expected()


def test_losses_leave_the_answers_as_they_are(
    own_cluster: LocalCluster, tmp_path: Path, answers: list[tuple[object, ...]]
) -> None:
    with served(own_cluster, tmp_path, QUERY, WORKERS, SIZES, restarts_max=20, columns=COLUMNS) as running:
        under_losses(running, own_cluster, WORKERS, len(answers))
    assert len(running.output.rows) == len(answers)
    assert racks.digest(running.output.rows) == racks.digest(answers)


@pytest.mark.parametrize(
    ("packing", "workers", "condition"),
    [long_only("router+sink mutable+pojoin", WORKERS, ""), ("together", 1, FILTERED)],
)
def test_losses_leave_a_full_join_as_it_is(
    own_cluster: LocalCluster, tmp_path: Path, packing: str, workers: int, condition: str
) -> None:
    closed, answers = joined(filtered=bool(condition))
    text = FULL.replace("CONDITION", condition).replace("NAME", f"full-{workers}")
    with served(
        own_cluster, tmp_path, text, workers, SIZES, restarts_max=20, columns=FULL_COLUMNS, packing=packing
    ) as running:
        under_losses(running, own_cluster, workers, closed)
    assert {None} < {left for left, _ in answers}
    assert {None} < {right for _, right in answers}
    assert len(running.output.rows) == len(answers)
    assert racks.digest(running.output.rows) == racks.digest(answers)


UNANSWERED = """
name: final-timed
streams:
  asked: {schema: {id: long, at: timestamp}, time: at}
  said: {schema: {to: long, at: timestamp}, time: at}
sql: |
  SELECT l.id FROM asked AS l ANTI JOIN said AS r ON l.id = r.to AND r.at BETWEEN l.at AND l.at + INTERVAL '1 s'
  EMIT ON CLOSE
"""
ASKED = 400


def test_a_heartbeat_closes_what_no_row_does(own_cluster: LocalCluster, tmp_path: Path) -> None:
    settings = dict(SIZES)
    with served(own_cluster, tmp_path, UNANSWERED, 1, settings, restarts_max=0, columns=("id",)) as running:
        producer = Producer({"bootstrap.servers": own_cluster.broker.bootstrap})
        for number in range(ASKED):
            producer.produce(running.topics["asked"], orjson.dumps({"id": number, "at": 10 * number}))
            if number % 3 == 0:  # every sixth comes too late
                late_ms = 1_001 if number % 6 == 0 else 1_000
                producer.produce(running.topics["said"], orjson.dumps({"to": number, "at": 10 * number + late_ms}))
        producer.flush()
        running.read_until(ASKED - 105)  # those more than a second and five rows before the last one
        for topic in running.topics.values():
            producer.produce(topic, b"", headers={HEARTBEAT: str(10 * ASKED + 2_000).encode()})
        producer.flush()
        running.read_until(ASKED)
    assert running.output.rows == [(number,) for number in range(ASKED) if number % 3 or number % 6 == 0]


def under_losses(running: Served, cluster: LocalCluster, workers: int, due: int) -> None:
    """Feed all racks while each part is lost once, until all due answers are out."""
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        losing = pool.submit(lose_each, running, cluster, workers, stop)
        feeding = pool.submit(racks.feed, cluster.broker.bootstrap, running.topics["racks"], stop, 0.2)
        try:
            running.until(
                lambda: running.output.answered >= due and losing.done() and feeding.done(),
                lambda: f"{running.output.answered} of {due} answered; losses: {losing}, feed: {feeding}",
            )
        finally:
            stop.set()
        losing.result()
        feeding.result()


def lose_each(running: Served, cluster: LocalCluster, workers: int, stop: threading.Event) -> None:
    """Kill every service, a second apart, each time with another worker count; then kill Kafka and Redis."""
    control = LogPartition(topic_name(running.query.name, Topic.CONTROL), 0)
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics({control.topic: 1})  # as a controller would
    writer = log.writer()
    for version, service in enumerate(running.services):
        if stop.wait(1.0):
            break
        running.kill(service)
        writer.append(control, encode(WorkerCount(1 + version, 1 + version % workers)))
        writer.flush(30.0)
    writer.close()
    log.close()
    cluster.redis.kill()
    cluster.broker.kill()
    cluster.broker.start()
    cluster.redis.start()
