"""Final answers through all services, while they are killed, Redis is lost and workers come and go.

The ordered answers have the same SHA-256 as a nested loop over the inputs, one role a process and all in one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import HEARTBEAT, Topic, topic_name
from spojoin.wire.codec import encode
from spojoin.wire.records import WorkerCount
from tests.support import racks
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


def expected() -> Iterator[tuple[object, ...]]:
    """The definition: of each left row that is closed, all right rows of which one window holds the other."""
    passing = [row for row in racks.rows() if row["cooling"] > 3 or row["note"] is not None]
    lefts = [n for n, row in enumerate(passing) if row["cooling"] > 3]
    rights = [n for n, row in enumerate(passing) if row["note"] is not None]
    before_left, before_right = _before(passing, lefts), _before(passing, rights)
    for place, left in enumerate(lefts[: _begin(len(lefts))]):
        found = [
            passing[right]
            for other, right in enumerate(rights)
            if left != right
            and (other >= _begin(before_right[left]) if right < left else place >= _begin(before_left[right]))
            and _is_pair(passing[left], passing[right])
        ]
        nearest = min(found, key=lambda row: row["draw"], default=None)
        total = sum(row["cooling"] for row in found) if found else None
        least, who = (None, None) if nearest is None else (nearest["draw"], nearest["id"])
        yield passing[left]["id"], len(found), total, least, who


FULL_COLUMNS = ("a", "b")
#: Either side's rows are given back whatever the conditions say of them alone; void rows have no site, or no draw.
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
    """The definition: how many rows of either side close, and their results in the order in which they close."""
    rows = racks.rows()
    closed = _begin(len(rows))
    pairs = [
        (left, right)
        for left in range(len(rows))
        for right in range(max(0, _begin(left)), min(len(rows), left + racks.WINDOW + 1))
        if left != right
        and min(left, right) >= _begin(max(left, right))
        and _is_pair(rows[left], rows[right])
        and rows[left]["draw"] != rows[right]["draw"]
        and rows[left]["cooling"] == rows[right]["cooling"]
        and (not filtered or rows[right]["note"] is not None)
    ]
    partners: dict[int, list[int]] = {}
    for left, right in pairs:
        partners.setdefault(left, []).append(right)
    found = {right for _, right in pairs}
    answers: list[tuple[int, int, int, object, object]] = []
    for place in range(closed):
        behind = (place + racks.WINDOW) // racks.SLIDE  # rows close together, with the row that moves the window
        answers += [(behind, 0, place, place, right) for right in partners.get(place, [None])]
        if place not in found:
            answers.append((behind, 1, place, None, place))
    answers.sort(key=lambda each: each[:3])
    return 2 * closed, [(left, right) for *_, left, right in answers]


def _before(passing: list[racks.Row], side: list[int]) -> list[int]:
    """How many rows of a side come before each row."""
    own, found, count = set(side), [], 0
    for number in range(len(passing)):
        found.append(count)
        count += number in own
    return found


def _begin(place: int) -> int:
    return -(-place // racks.SLIDE) * racks.SLIDE - racks.WINDOW


def _is_pair(left: racks.Row, right: racks.Row) -> bool:
    if left["site"] is None or left["site"] != right["site"] or left["draw"] is None or right["draw"] is None:
        return False
    return bool(left["draw"] <= right["draw"])


@pytest.fixture(scope="module")
def answers() -> list[tuple[object, ...]]:
    return list(expected())


def test_losses_leave_the_answers_as_they_are(
    own_cluster: LocalCluster, tmp_path: Path, answers: list[tuple[object, ...]]
) -> None:
    with served(own_cluster, tmp_path, QUERY, WORKERS, SIZES, restarts_max=20, columns=COLUMNS) as running:
        under_losses(running, own_cluster, WORKERS, len(answers))
    assert len(running.output.rows) == len(answers)
    assert racks.digest(running.output.rows) == racks.digest(answers)


@pytest.mark.parametrize(
    ("packing", "workers", "condition"), [("router+sink mutable+pojoin", WORKERS, ""), ("together", 1, FILTERED)]
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
        running.read_until(ASKED - 105)  # those a second and five rows before the last one said
        for topic in running.topics.values():
            producer.produce(topic, b"", headers={HEARTBEAT: str(10 * ASKED + 2_000).encode()})
        producer.flush()
        running.read_until(ASKED)
    assert running.output.rows == [(number,) for number in range(ASKED) if number % 3 or number % 6 == 0]


def under_losses(running: Served, cluster: LocalCluster, workers: int, due: int) -> None:
    """Feed all racks while everything is lost once, until all answers that are due are out."""
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
    """SIGKILL for every service, a second apart, and another number of workers each time; then Kafka's and Redis's."""
    control = LogPartition(topic_name(running.query.name, Topic.CONTROL), 0)
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics({control.topic: 1})  # as a controller does, which isn't here
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
