"""Columns, filters, texts, NULL and a residual condition through all services, killed one after the other.

The ordered rows have the same SHA-256 as a nested loop over the inputs, for one worker, for three, and where their
number changes while rows flow.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster, local_cluster
from tests.support.served import SIZES, served

pytestmark = pytest.mark.integration

ROWS, WINDOW, SLIDE = 4_000, 800, 100
SITES = ("north", "Süd", "", "it's \"East\"", None)
COLUMNS = ("id", "other", "site", "gap", "l_seq", "r_seq")

QUERY = f"""
name: NAME
streams:
  racks:
    schema: {{id: long, site: string, draw: double, cooling: long, note: string}}
sql: |
  SELECT l.id, r.id AS other, R.site, l.draw - r.draw AS gap, l.seq AS l_seq, r.seq AS r_seq  -- both sides
  FROM racks AS l JOIN racks AS r
  ON l.site = r.site AND l.draw < r.draw AND (l.note <> r.note OR l.cooling + r.cooling > 30)
  WHERE l.cooling > 3 AND r.note IS NOT NULL
  WINDOW AS (SLIDE INTERVAL '{SLIDE}' ON '{WINDOW}')
"""


Row = dict[str, object]


def rows() -> list[Row]:
    rng = np.random.default_rng(11)
    return [
        {
            "id": i,
            "site": SITES[rng.integers(0, len(SITES))],
            "draw": None if rng.random() < 0.05 else int(rng.integers(0, 40)) / 4,
            "cooling": int(rng.integers(0, 20)),
            "note": (None, "a", "b", "c")[rng.integers(0, 4)],
        }
        for i in range(ROWS)
    ]


def expected() -> Iterator[tuple[object, ...]]:
    """The definition: of each row in turn, its partners among the earlier rows of the windows of both sides."""
    sides: tuple[list[tuple[int, Row]], list[tuple[int, Row]]] = ([], [])
    seq = 0
    for row in rows():
        passes = row["cooling"] > 3, row["note"] is not None  # type: ignore[operator]
        if not any(passes):
            continue
        starts = [max(0, -(-len(side) // SLIDE) * SLIDE - WINDOW) for side in sides]
        found = [(r, row) for r in sides[0][starts[0] :]] if passes[1] else []
        pairs = [(left, (seq, right)) for left, right in found]
        if passes[0]:
            pairs += [((seq, row), right) for right in sides[1][starts[1] :]]
        holding = [pair for pair in pairs if is_pair(pair[0][1], pair[1][1])]
        for (left_seq, left), (right_seq, right) in sorted(holding, key=lambda pair: (pair[0][0], pair[1][0])):
            gap = left["draw"] - right["draw"]  # type: ignore[operator]
            yield left["id"], right["id"], right["site"], gap, left_seq, right_seq
        for side, passed in zip(sides, passes, strict=True):
            if passed:
                side.append((seq, row))
        seq += 1


def is_pair(left: Row, right: Row) -> bool:
    if left["site"] is None or left["site"] != right["site"] or left["draw"] is None or right["draw"] is None:
        return False
    if not left["draw"] < right["draw"]:  # type: ignore[operator]
        return False
    differ = left["note"] is not None and left["note"] != right["note"]
    return differ or left["cooling"] + right["cooling"] > 30  # type: ignore[operator]


def digest(found: Sequence[tuple[object, ...]]) -> str:
    sha = hashlib.sha256()
    for row in found:
        sha.update(orjson.dumps(row))
    return sha.hexdigest()


def feed(bootstrap: str, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000})
    for number, row in enumerate(rows()):
        producer.produce(topic, orjson.dumps(row))
        producer.poll(0)
        if number % 100 == 99 and stop.wait(0.05):
            break
    assert producer.flush(300) == 0


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """A broker and a Redis for this module alone."""
    with local_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def expected_rows() -> list[tuple[object, ...]]:
    return list(expected())


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_services_give_the_rows_of_a_nested_loop(
    own_cluster: LocalCluster, tmp_path: Path, expected_rows: list[tuple[object, ...]], workers: int
) -> None:
    text, stop = QUERY.replace("NAME", f"statement-{workers}"), threading.Event()
    numbered = sum(row["cooling"] > 3 or row["note"] is not None for row in rows())  # type: ignore[operator]
    with (
        served(own_cluster, tmp_path, text, workers, SIZES, restarts_max=20, columns=COLUMNS) as running,
        ThreadPoolExecutor() as pool,
    ):
        killing = pool.submit(kill_each, running, stop)
        feeding = pool.submit(feed, own_cluster.broker.bootstrap, running.topics["racks"], stop)
        try:
            running.until(
                lambda: running.output.answered >= numbered and killing.done() and feeding.done(),
                lambda: f"{running.output.answered} of {numbered} answered",
            )
        finally:
            stop.set()
        killing.result()
        feeding.result()
    assert len(running.output.rows) == len(expected_rows)
    assert digest(running.output.rows) == digest(expected_rows)


def kill_each(running, stop) -> None:  # noqa: ANN001
    for name in running.services:
        if stop.wait(1.0):
            return
        running.kill(name)
