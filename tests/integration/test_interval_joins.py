"""An interval join with a key as services on the real broker and Redis; one worker is killed midway.

Two streams of two partitions each run back in time within the stated lateness, and some rows by more. The latter are in
the dead-letter topics and counted; all other rows give the pairs of a nested loop, in its order. In the end the
services hold only what the interval reaches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.topology import BATCH_ROLES, HEARTBEAT, Role, Topic, topic_name
from tests.support.dead_letters import dead_letters
from tests.support.long import first_of
from tests.support.nested_loop import pairs as pairs_by_definition
from tests.support.served import PATIENCE_S, Served, as_arrow, served

pytestmark = pytest.mark.integration

STREAMS = ("orders", "views")
#: Inputs: the partitions of both streams, by (stream, partition).
INPUTS = [(stream, partition) for stream in (0, 1) for partition in (0, 1)]
#: Rows of an input, sent in messages of one row (orders) or of MESSAGE_ROWS rows (views).
ROWS, MESSAGE_ROWS = 3_000, 40
#: Few distinct times and customers, so that ties are frequent. The clock ticks every four rows of an input.
TICK_MS, TICK_ROWS, CUSTOMERS = 5_000, 4, 8
START_MS = 1_357_000_000_000
#: The right row's event time minus the left's, both ends included.
LOWER_MS, UPPER_MS = -60_000, 120_000
LATENESS_MS = 20_000
#: One row in LATE_EVERY runs back by up to LATE_TICKS ticks, which is mostly too late.
LATE_EVERY, LATE_TICKS = 250, 30

QUERY = """
name: NAME
streams:
  orders: {schema: {customer: long, ts: timestamp}, time: ts, key: id}
  views: {schema: {customer: long, ts: timestamp}, time: ts, key: id}
sql: |
  SELECT * FROM orders AS l JOIN views AS r
  ON l.customer = r.customer AND r.ts BETWEEN l.ts - INTERVAL '1 min' AND l.ts + INTERVAL '2 min'
lateness: 20 s
output: pairs
"""
COLUMNS = ("probe_seq", "left_seq", "right_seq", "left_key", "right_key")

WORKERS, KILLED, PACE_S = 3, "pojoin-1", 0.04
BATCH_TUPLES = 32
#: An interval reaches over several batches.
SETTINGS = {"frame_tuples": "32", "batch_tuples": str(BATCH_TUPLES), "credits_frames": "32"}
#: Keys are counted until well before the worker is killed.
LAYOUTS = {"batch": "", "hp": "layout: {name: hp, calibration: 1000}", "kp": "layout: kp", "dp": "layout: dp"}


# -- the rows, and what follows from them by definition


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of all inputs. Each column int64 (n,): times in ms, `number` counts an input's rows from 0."""

    stream: np.ndarray
    partition: np.ndarray
    number: np.ndarray
    ms: np.ndarray
    customer: np.ndarray

    @property
    def id(self) -> np.ndarray:
        """The id of a row, unique in its stream."""
        return self.partition * ROWS + self.number

    def __len__(self) -> int:
        return len(self.ms)

    def take(self, which: np.ndarray) -> Rows:
        columns = (self.stream, self.partition, self.number, self.ms, self.customer)
        return Rows(*(column[which] for column in columns))


@cache
def sent() -> Rows:
    """All rows, input by input, in the order of sending."""
    rng, n = np.random.default_rng(11), ROWS * len(INPUTS)
    number = np.tile(np.arange(ROWS), len(INPUTS))
    stream, partition = np.repeat(np.array(INPUTS), ROWS, axis=0).T
    back = rng.integers(0, LATENESS_MS // TICK_MS, n, endpoint=True)
    back = np.where(rng.random(n) < 1 / LATE_EVERY, rng.integers(0, LATE_TICKS, n), back)
    often = 1 / np.arange(1, CUSTOMERS + 1)
    customer = rng.choice(CUSTOMERS, n, p=often / often.sum())
    return Rows(stream, partition, number, START_MS + (number // TICK_ROWS - back) * TICK_MS, customer)


@cache
def is_late() -> np.ndarray:
    """Which of the sent rows lag an earlier row of their input by more than the lateness, bool (n,)."""
    high = np.maximum.accumulate(sent().ms.reshape(len(INPUTS), ROWS), axis=1)
    return sent().ms < high.ravel() - LATENESS_MS


@cache
def in_order() -> Rows:
    """The rows that are not late, by event time, stream, partition and number: their places are their seqs."""
    kept = sent().take(~is_late())
    return kept.take(np.lexsort((kept.number, kept.partition, kept.stream, kept.ms)))


def nested_loop() -> Iterator[tuple[int, ...]]:
    """All pairs, found from their later row, ordered by (probe_seq, left_seq, right_seq)."""
    rows, ids = in_order(), in_order().id.tolist()
    for found in pairs_by_definition((rows.stream, rows.customer, rows.ms), joins, len(rows)):
        yield *found, *(ids[row] for row in found[1:])


def joins(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
    gap = right[2] - left[2]
    return (left[0] < right[0]) & (left[1] == right[1]) & (gap >= LOWER_MS) & (gap <= UPPER_MS)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[int, ...]]:
    return list(nested_loop())


def reached() -> int:
    """Rows that a new row could still find: orders of the last two minutes, views of the last minute."""
    rows = in_order()
    return int((rows.ms >= rows.ms[-1] - np.array([UPPER_MS, -LOWER_MS])[rows.stream]).sum())


# -- sending them


def feed(bootstrap: str, running: Served, killed: threading.Event, stop: threading.Event) -> None:
    """Send all inputs in turn, the last quarter after the kill.

    A final heartbeat on each keeps anything from waiting for more rows.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for first in range(0, ROWS, MESSAGE_ROWS):
        if first >= ROWS * 3 // 4:
            killed.wait()
        for place, (stream, partition) in enumerate(INPUTS):
            begin = place * ROWS + first
            for message in messages(stream, sent().take(np.arange(begin, begin + MESSAGE_ROWS))):
                producer.produce(running.topics[STREAMS[stream]], message, partition=partition)
        producer.poll(0)
        if stop.wait(PACE_S):
            return
    silent = {HEARTBEAT: str(START_MS + ROWS * TICK_MS)}
    for stream, partition in INPUTS:
        producer.produce(running.topics[STREAMS[stream]], b"", partition=partition, headers=silent)
    assert producer.flush(PATIENCE_S) == 0


def messages(stream: int, rows: Rows) -> Iterator[bytes]:
    """Orders as JSON, one per message; views as one Arrow batch."""
    if stream == 1:
        times = pa.array(rows.ms, pa.timestamp("ms"))
        yield as_arrow(pa.record_batch({"customer": rows.customer, "ts": times, "id": rows.id}))
        return
    for customer, ms, row_id in zip(rows.customer.tolist(), rows.ms.tolist(), rows.id.tolist(), strict=True):
        yield orjson.dumps({"customer": customer, "ts": datetime.fromtimestamp(ms / 1000, UTC), "id": row_id})


# -- the services


@pytest.mark.parametrize("layout", first_of(2, LAYOUTS))
def test_an_interval_join_survives_the_death_of_a_worker(
    cluster: LocalCluster, tmp_path: Path, pairs: list[tuple[int, ...]], layout: str
) -> None:
    text = QUERY.replace("NAME", f"interval-{layout}") + LAYOUTS[layout]
    bootstrap, tuples = cluster.broker.bootstrap, len(in_order())
    killed, stop = threading.Event(), threading.Event()
    with (
        served(cluster, tmp_path, text, WORKERS, SETTINGS, partitions=2, columns=COLUMNS) as running,
        ThreadPoolExecutor() as pool,
    ):
        assert any(name.startswith(tuple(BATCH_ROLES)) for name in running.services) == (layout == "batch")
        try:
            feeding = pool.submit(feed, bootstrap, running, killed, stop)
            running.read_until(tuples // 2)
            assert running.output.answered < tuples, "the worker is to die in the middle"
            running.kill(KILLED)
            killed.set()
            running.read_until(tuples)
            feeding.result()
        finally:
            stop.set()
            killed.set()
        check_dead_letters(bootstrap, running)
        check_state(bootstrap, running)
    assert running.output.answered == tuples
    assert running.output.rows == pairs


def check_dead_letters(bootstrap: str, running: Served) -> None:
    """Check that the router counts the late rows and the topics state where each one came from."""
    late = sent().take(is_late())
    assert {*zip(late.stream.tolist(), late.partition.tolist(), strict=True)} == set(INPUTS)

    def counted() -> float:
        return running.measured(Role.ROUTER, "spojoin_dead_letters_total", reason="late")

    running.until(lambda: counted() >= len(late), lambda: f"{counted()} of {len(late)} late rows are counted")
    assert running.measured(Role.ROUTER, "spojoin_dead_letters_total") == len(late)
    for stream, name in enumerate(STREAMS):
        own = late.take(late.stream == stream)
        size = MESSAGE_ROWS if stream == 1 else 1
        places = zip(own.partition.tolist(), (own.number // size).tolist(), (own.number % size).tolist(), strict=True)
        found = dead_letters(bootstrap, running.topics[name], PATIENCE_S)
        assert sorted((letter.reason, letter.place) for letter in found) == sorted(("late", place) for place in places)


def check_state(bootstrap: str, running: Served) -> None:
    """Check that each service, and the log, drops rows that no new row can reach."""
    # Per stream one batch is open, one awaits handover, and one straddles the end of the window.
    bound = reached() + 2 * 3 * BATCH_TUPLES
    assert bound < len(in_order()) / 10

    def held() -> dict[str, float]:
        return {name: running.measured(name, "spojoin_state_tuples") for name in running.services}

    running.until(lambda: max(held().values()) <= bound, lambda: f"tuples held: {held()}; expected up to {bound}")
    assert max(held()[f"pojoin-{worker}"] for worker in range(WORKERS)) > 0
    assert log_begins(bootstrap, running) > 0


def log_begins(bootstrap: str, running: Served) -> int:
    """The first offset that the log still retains."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        log = TopicPartition(topic_name(running.query.name, Topic.FRAMES), 0)
        return int(consumer.get_watermark_offsets(log, 10.0)[0])
    finally:
        consumer.close()
