"""Rows that intakes read: one SHA-256 of the ordered output and the same dead letters, whichever process is killed.

The rows are JSON in several partitions and in event-time order; some are no rows, and some come late.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.topology import HEARTBEAT
from tests.support.dead_letters import Letter, dead_letters
from tests.support.nested_loop import counts
from tests.support.readings import DOMAIN, SLIDE, WINDOW, digest, joins
from tests.support.served import PATIENCE_S, SIZES, Served, served

pytestmark = pytest.mark.integration

PARTITIONS, MESSAGES = 4, 12_000
#: Every so many messages one is no row, and one comes too late.
MALFORMED_EACH, LATE_EACH = 301, 401
#: All roles but the intakes in two processes.
INTAKES_APART = "router mutable+permutation+pojoin+logical-and+sink"

TEXT = f"""
name: NAME
streams:
  readings: {{schema: {{draw: double, cooling: long, at: timestamp, id: long}}, time: at, key: id}}
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '{SLIDE}' ON '{WINDOW}')
order: event_time
output: count
"""


def messages() -> Iterator[tuple[int, int, bytes]]:
    """Each message's partition, its number, and its value: one reading a millisecond."""
    rng = np.random.default_rng(11)
    draws, coolings = rng.integers(0, DOMAIN, MESSAGES) / 4, rng.integers(0, DOMAIN, MESSAGES)
    for number in range(MESSAGES):
        is_late = number > PARTITIONS and number % LATE_EACH == 0
        row = {
            "draw": "much" if is_malformed(number) else draws[number],
            "cooling": int(coolings[number]),
            "at": 0 if is_late else 1_000_000 + number,
            "id": number,
        }
        yield number % PARTITIONS, number, orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)


def is_malformed(number: int) -> bool:
    return number % MALFORMED_EACH == 7


def expected() -> Iterator[tuple[int, ...]]:
    taken = [(number, orjson.loads(value)) for _, number, value in messages() if not is_malformed(number)]
    rows = [(number, row["draw"], row["cooling"]) for number, row in taken if row["at"]]
    columns = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    for seq, *found in counts(columns, joins, WINDOW, SLIDE):
        yield seq, rows[seq][0], *found


def write(bootstrap: str, topic: str, stop: threading.Event, pause_s: float) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, number, value in messages():
        producer.produce(topic, value, partition=partition)
        if number % 100 == 0:
            producer.poll(0)
            stop.wait(pause_s)
    for partition in range(PARTITIONS):
        producer.produce(topic, None, partition=partition, headers={HEARTBEAT: b"9000000"})
    assert producer.flush(PATIENCE_S) == 0


def refused() -> list[tuple[str, bytes]]:
    late = [("late", value) for _, _, value in messages() if orjson.loads(value)["at"] == 0]
    return sorted(late + [("type", value) for _, number, value in messages() if is_malformed(number)])


def answered() -> int:
    return MESSAGES - len(refused())


@pytest.mark.parametrize(("intakes", "is_transactional"), [(1, True), (3, False)])
def test_any_number_of_intakes_gives_the_same_output_and_dead_letters(
    cluster: LocalCluster, tmp_path: Path, intakes: int, is_transactional: bool
) -> None:
    text, stop = TEXT.replace("NAME", f"intakes{intakes}"), threading.Event()
    bootstrap = cluster.broker.bootstrap
    struck = ["router", *(f"intake-{number}" for number in range(intakes))]

    def letters() -> list[Letter]:
        return dead_letters(bootstrap, running.topics["readings"], PATIENCE_S)

    with (
        served(
            cluster,
            tmp_path,
            text,
            1,
            {**SIZES, "intakes": str(intakes), "router_transactions": str(is_transactional).lower()},
            partitions=PARTITIONS,
            restarts_max=20,
            packing=INTAKES_APART,
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        assert set(struck) <= running.services.keys()
        feeding = pool.submit(write, bootstrap, running.topics["readings"], stop, 0.1)
        try:
            strike_in_turn(running, struck)
            running.read_until(answered())
        finally:
            stop.set()
        feeding.result()
        assert digest(iter(running.output.rows)) == digest(expected())
        running.until(lambda: len(set(letters())) >= len(refused()), lambda: f"{len(letters())} dead letters")
    found = letters()  # no service writes any more
    rows = set(found)  # without transactions, a killed router may leave letters that its successor writes, too
    assert sorted((letter.reason, letter.value) for letter in rows) == refused()
    assert not is_transactional or len(found) == len(rows)


def strike_in_turn(running: Served, names: list[str]) -> None:
    """Kill one service after the other while rows flow."""
    for part, name in enumerate(names, start=1):
        running.read_until(answered() * part // (2 * len(names)))
        running.kill(name)
