"""Tables on the real broker: a compacted topic that changes while rows flow and services are killed; a file.

A nested loop here and the checker judge the services' answers; the checker must find planted errors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import cycle, groupby, islice, pairwise
from pathlib import Path
from random import Random

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from loadgen.check.checker import check
from loadgen.check.reading import CheckedTopics
from loadgen.load import spark
from loadgen.load.spark import Kafka
from spojoin.errors import ConfigurationError
from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.packing import APART
from tests.support.checked import as_message
from tests.support.long import long_only
from tests.support.served import PATIENCE_S, SIZES, Served, committed_reader, served

pytestmark = pytest.mark.integration

ROWS, NAMES = 4_000, "abcdefghij"
#: The least number of killed services; each service is killed.
LOSSES = 2
#: How many rows may be written before they are answered.
AHEAD = 300
QUERY = """
name: tiered-{name}
streams: {{orders: {{schema: {{id: long, x: long}}}}}}
tables: {{tiers: {{{source}, schema: {{name: string, low: long, stamp: long}}}}}}
sql: SELECT l.id, l.x, r.stamp FROM orders AS l LEFT JOIN tiers AS r ON l.x >= r.low
"""
COLUMNS = ("id", "x", "stamp")
#: A row of the table by its key: low and stamp.
Tiers = dict[str, tuple[int, int]]


def changes() -> Iterator[tuple[str, int | None]]:
    """Messages of the table's topic, by their stamp: the key and `low`, or None to remove the key."""
    rng = Random(5)
    while True:
        yield rng.choice(NAMES), None if rng.random() < 0.2 else rng.randrange(10)


def order(number: int) -> dict[str, int]:
    return {"id": number, "x": number * 7 % 12}


class Feed:
    """Writes alternating rows and changes; states: the table after each message."""

    def __init__(self, bootstrap: str) -> None:
        self.states: list[Tiers] = [{}]
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def change(self, topic: str, name: str, low: int | None) -> None:
        stamp, state = len(self.states), dict(self.states[-1])
        state.pop(name, None)
        if low is not None:
            state[name] = (low, stamp)
        row = None if low is None else orjson.dumps({"name": name, "low": low, "stamp": stamp})
        self._producer.produce(topic, row, name, partition=0)
        self.states.append(state)

    def run(self, running: Served, stop: threading.Event) -> None:
        """Write all rows; few wait for an answer, so that answers are about many states of the table."""
        orders, tiers = running.topics["orders"], running.topics["tiers"]
        following = changes()
        for number in range(ROWS):
            self._producer.produce(orders, orjson.dumps(order(number)), partition=0)
            if number % 20 == 0:
                self.change(tiers, *next(following))
                self._producer.poll(0)
                while number - running.output.answered > AHEAD:
                    if stop.wait(0.05):
                        return
        self.flush()

    def produce(self, topic: str, row: bytes) -> None:
        self._producer.produce(topic, row, partition=0)
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0


def of_state(tiers: Tiers, x: int) -> list[int | None]:
    """The stamps that the nested loop gives for a row."""
    return sorted(stamp for low, stamp in tiers.values() if x >= low) or [None]


def states_seen(answers: Sequence[tuple[int, int, list[int | None]]], states: Sequence[Tiers], first: int) -> list[int]:
    """For each row, the number of table messages that its answer reflects, which never decreases."""
    found = [first]
    for number, x, stamps in answers:
        fitting = (n for n in range(found[-1], len(states)) if of_state(states[n], x) == stamps)
        seen = next(fitting, None)
        assert seen is not None, f"row {number} with x {x} saw {stamps}: no state of the table from {found[-1]} on"
        found.append(seen)
    return found[1:]


def answers_of(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, int, list[int | None]]]:
    """The answers by left row, in the order of results."""
    return [
        (number, x, sorted((stamp for _, _, stamp in each), key=lambda stamp: stamp or 0))
        for (number, x), each in groupby(rows, key=lambda row: row[:2])
    ]


def lose_each(running: Served, stop: threading.Event) -> None:
    for service in islice(cycle(running.services), max(LOSSES, len(running.services))):
        if stop.wait(1.0):
            return
        running.kill(service)


@pytest.mark.parametrize("packing", [long_only("together"), APART])
def test_every_row_is_answered_about_one_state_of_a_topic(cluster: LocalCluster, tmp_path: Path, packing: str) -> None:
    name = f"topic-{len(packing)}"
    text, stop = QUERY.format(name=name, source="topic: tiers, refresh: 100 ms"), threading.Event()
    feed = Feed(cluster.broker.bootstrap)
    with (
        served(
            cluster, tmp_path, text, 1, SIZES, restarts_max=20, columns=COLUMNS, packing=packing,
        ) as running,
        ThreadPoolExecutor() as pool,
    ):  # fmt: skip
        feeding = pool.submit(feed.run, running, stop)
        losing = pool.submit(lose_each, running, stop)

        def is_done() -> bool:
            return running.output.answered >= ROWS and losing.done() and feeding.done()

        try:
            running.until(is_done, lambda: f"{running.output.answered} of {ROWS} answered")
        finally:
            stop.set()
        losing.result()
        feeding.result()
    answers = answers_of(running.output.rows)
    assert [number for number, _, _ in answers] == list(range(ROWS))
    seen = states_seen(answers, feed.states, 0)
    assert len(set(seen)) > 10, "the table changes while rows flow"


# -- the checker


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    running = spark.start()
    yield running
    running.stop()


def read_whole_version(running: Served, feed: Feed) -> None:
    """Send rows until one is answered about the current table."""
    number, every = ROWS, 11
    while of_state(feed.states[-1], every) != answers_of(running.output.rows)[-1][2]:
        row = orjson.dumps({"id": number, "x": every})
        feed.produce(running.topics["orders"], row)
        number += 1
        running.read_until(number)


def copied(bootstrap: str, results: str, to: str, changed: Callable[[pa.Table], pa.Table | None]) -> None:
    """Copy a results topic; the last record that `changed` changes is replaced by the changed one."""
    log = KafkaLog(KafkaConfig(bootstrap))
    log.create_topics({to: 1})
    log.close()
    messages = committed(bootstrap, results)
    tables = [pa.ipc.open_stream(message.value()).read_all() for message in messages]
    at, other = next((n, found) for n in reversed(range(len(tables))) if (found := changed(tables[n])) is not None)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, message in enumerate(messages):
        value = as_message(other) if number == at else message.value()
        producer.produce(to, value, headers=message.headers(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def committed(bootstrap: str, topic: str) -> list[Message]:
    consumer = committed_reader(bootstrap, topic)
    end, found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)[1], []
    while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
        found += [message for message in consumer.consume(1_000, 1.0) if message.error() is None]
    consumer.close()
    return found


def stale(feed: Feed, table: pa.Table) -> pa.Table | None:
    """A result with one row that is answered about an earlier version, by one key."""
    rows = table.to_pylist()
    for row in rows:
        if row["stamp"] is not None:
            name = next(name for name, (_, stamp) in feed.states[row["stamp"]].items() if stamp == row["stamp"])
            low, stamp = feed.states[row["stamp"] - 1].get(name, (99, 0))
            if low <= row["x"]:
                row["stamp"] = stamp
                return pa.Table.from_pylist(rows, table.schema)
    return None


def with_deleted(feed: Feed, table: pa.Table) -> pa.Table | None:
    """A result whose last row also matches a key that was removed long before."""
    rows = table.to_pylist()
    if not rows or rows[-1]["x"] < 9:
        return None
    gone = next(
        stamp for before, after in pairwise(feed.states) for name, (_, stamp) in before.items() if name not in after
    )
    rows.append({**rows[-1], "stamp": gone})
    return pa.Table.from_pylist(rows, table.schema)


@pytest.mark.spark
def test_the_checker_proves_answers_about_a_topic_and_finds_what_is_planted(
    cluster: LocalCluster, tmp_path: Path, session: SparkSession
) -> None:
    bootstrap, stop = cluster.broker.bootstrap, threading.Event()
    text, feed = QUERY.format(name="checked", source="topic: tiers, refresh: 100 ms"), Feed(bootstrap)
    sizes = {**SIZES, "batch_tuples": str(2 * ROWS)}  # so that the log keeps all rows
    with served(
        cluster, tmp_path, text, 1, sizes, restarts_max=20, columns=COLUMNS, packing="together"
    ) as running, ThreadPoolExecutor() as pool:  # fmt: skip
        feeding, losing = pool.submit(feed.run, running, stop), pool.submit(lose_each, running, stop)
        try:
            running.until(lambda: running.output.answered >= ROWS and feeding.done(), lambda: "rows are missing")
        finally:
            stop.set()
        losing.result()
        read_whole_version(running, feed)
    topics = CheckedTopics(Kafka(bootstrap), running.topics)
    verdict = check(session, running.query, topics)
    assert verdict.is_exact, verdict
    assert verdict.rows_right == len(running.output.rows)
    copied(bootstrap, topics.results_of(running.query), "checked.stale", partial(stale, feed))
    copied(bootstrap, "checked.stale", "checked.both", partial(with_deleted, feed))
    found = check(session, running.query, replace(topics, results="checked.both"))
    assert (found.is_exact, found.rows_expected - found.rows_right, found.false_positives) == (False, 1, 2)
    assert found.first_difference is not None


@pytest.mark.spark
def test_the_checker_asks_for_what_a_trimmed_log_no_longer_tells(
    cluster: LocalCluster, tmp_path: Path, session: SparkSession
) -> None:
    text, feed = QUERY.format(name="trimmed", source="topic: tiers, refresh: 100 ms"), Feed(cluster.broker.bootstrap)
    with served(cluster, tmp_path, text, 1, SIZES, columns=COLUMNS, packing="together") as running:
        with ThreadPoolExecutor() as pool:
            feeding = pool.submit(feed.run, running, threading.Event())
            running.until(lambda: running.output.answered >= ROWS and feeding.done(), lambda: "rows are missing")
            feeding.result()
        log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
        running.until(lambda: log.bounds(LogPartition("tiered-trimmed.frames", 0)).earliest > 0, lambda: "not trimmed")
        log.close()
    with pytest.raises(ConfigurationError, match="the log of query tiered-trimmed begins at frame"):
        check(session, running.query, CheckedTopics(Kafka(cluster.broker.bootstrap), running.topics))


@pytest.mark.spark
def test_a_file_is_the_table_of_services_that_are_killed(
    cluster: LocalCluster, tmp_path: Path, session: SparkSession
) -> None:
    state: Tiers = {name: (number % 7, number) for number, name in enumerate(NAMES)}
    lines = [f"{name},{low},{stamp}" for name, (low, stamp) in state.items()]
    (tmp_path / "tiers.csv").write_text("\n".join(["name,low,stamp", *lines]) + "\n")
    text, stop = QUERY.format(name="file", source="file: tiers.csv"), threading.Event()
    with served(
        cluster, tmp_path, text, 1, SIZES, restarts_max=20, columns=COLUMNS, packing="together"
    ) as running:  # fmt: skip
        producer = Producer({"bootstrap.servers": cluster.broker.bootstrap, "enable.idempotence": True})
        for number in range(ROWS):
            producer.produce(running.topics["orders"], orjson.dumps(order(number)), partition=0)
            if number in (1_000, 2_500):
                producer.flush(PATIENCE_S)
                lose_each(running, stop)
        assert producer.flush(PATIENCE_S) == 0
        running.read_until(ROWS)
    expected = [(n, order(n)["x"], of_state(state, order(n)["x"])) for n in range(ROWS)]
    assert answers_of(running.output.rows) == expected
    topics = CheckedTopics(Kafka(cluster.broker.bootstrap), running.topics, folder=tmp_path)
    verdict = check(session, running.query, topics)
    assert verdict.is_exact, verdict
    assert verdict.rows_right == len(running.output.rows)
