"""Tables on the real broker: a compacted topic that changes while rows flow and services are killed; a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from random import Random

import orjson
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.packing import APART
from tests.support.served import PATIENCE_S, SIZES, Served, served

pytestmark = pytest.mark.integration

ROWS, NAMES = 6_000, "abcdefghij"
#: Rows that are written before their predecessors are answered.
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
    """Messages of the table's topic, by the stamp that they have: the key and `low`, or None to remove it."""
    rng = Random(5)
    while True:
        yield rng.choice(NAMES), None if rng.random() < 0.2 else rng.randrange(10)


def order(number: int) -> dict[str, int]:
    return {"id": number, "x": number * 7 % 12}


class Feed:
    """Writes rows and changes in turn; states: the table after each message."""

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
        """Write all rows, of which few wait for an answer, so that many states of the table are answered about."""
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

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0


def of_state(tiers: Tiers, x: int) -> list[int | None]:
    """The stamps that the nested loop gives for a row."""
    return sorted(stamp for low, stamp in tiers.values() if x >= low) or [None]


def states_seen(answers: Sequence[tuple[int, int, list[int | None]]], states: Sequence[Tiers], first: int) -> list[int]:
    """Of each row the number of messages after which the table was what it was answered about: never fewer."""
    found = [first]
    for number, x, stamps in answers:
        fitting = (n for n in range(found[-1], len(states)) if of_state(states[n], x) == stamps)
        seen = next(fitting, None)
        assert seen is not None, f"row {number} with x {x} saw {stamps}: no state of the table from {found[-1]} on"
        found.append(seen)
    return found[1:]


def answers_of(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, int, list[int | None]]]:
    """By left row, in the order of results."""
    return [
        (number, x, sorted((stamp for _, _, stamp in each), key=lambda stamp: stamp or 0))
        for (number, x), each in groupby(rows, key=lambda row: row[:2])
    ]


def lose_each(running: Served, stop: threading.Event) -> None:
    for service in [*running.services, *running.services]:
        if stop.wait(1.0):
            return
        running.kill(service)


@pytest.mark.parametrize("packing", ["together", APART])
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


def test_a_file_is_the_table_of_services_that_are_killed(cluster: LocalCluster, tmp_path: Path) -> None:
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
            if number in (1_000, 3_000):
                producer.flush(PATIENCE_S)
                lose_each(running, stop)
        assert producer.flush(PATIENCE_S) == 0
        running.read_until(ROWS)
    expected = [(n, order(n)["x"], of_state(state, order(n)["x"])) for n in range(ROWS)]
    assert answers_of(running.output.rows) == expected
