"""A self join over a count window that several tests run: its query, its rows and its results by a nested loop."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Producer

from tests.support.nested_loop import counts
from tests.support.served import PATIENCE_S, as_arrow

TUPLES = 40_000
WINDOW, SLIDE = 5_000, 500
MESSAGE_ROWS = 250
DOMAIN = 60  # few values, so that ties are frequent

#: The draws and the cooling of readings.
Columns = Sequence[np.ndarray]


def query_text(name: str, window: int = WINDOW, slide: int = SLIDE) -> str:
    """A query for readings that draw less than another and need as much cooling or more."""
    return f"""
name: {name}
streams:
  readings:
    schema: {{draw: double, cooling: long}}
    key: id
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
order: arrival
output: count
"""


QUERY = query_text("NAME")


def columns() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.integers(0, DOMAIN, TUPLES) / 4, rng.integers(0, DOMAIN, TUPLES)


def reading(number: Any, domain: int) -> dict[str, Any]:
    """The draw and the cooling of a row, or of an array of rows, which its number determines."""
    return {"draw": number * 7919 % domain / 4, "cooling": number * 104729 % 37}


def digest(rows: Iterable[tuple[int, ...]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update(b"%s\n" % " ".join(map(str, row)).encode())
    return sha.hexdigest()


def expected(operator: str = ">=", readings: Callable[[], Columns] = columns) -> Iterator[tuple[int, ...]]:
    """(seq, key, as_left, as_right) of each tuple, by the definition: every earlier tuple of the window counts.

    `operator` compares the second column, `>=` or `=`.
    """
    compare = {">=": np.greater_equal, "=": np.equal}[operator]
    for seq, *found in counts(readings(), partial(joins, compare=compare), WINDOW, SLIDE):
        yield seq, seq, *found


def joins(left: Columns, right: Columns, compare: Callable[..., np.ndarray] = np.greater_equal) -> np.ndarray:
    """Whether readings draw less than another and need as much cooling or more, or as `compare` says."""
    return (left[0] < right[0]) & compare(left[1], right[1])


def skewed_columns() -> tuple[np.ndarray, np.ndarray]:
    """Readings of which few coolings are frequent: the most frequent one has a fourth of all."""
    rng = np.random.default_rng(8)
    shares = 1 / np.arange(1, DOMAIN + 1)
    return rng.integers(0, DOMAIN, TUPLES) / 4, rng.choice(DOMAIN, TUPLES, p=shares / shares.sum())


def feed(
    bootstrap: str,
    topic: str,
    stop: threading.Event,
    pace_s: float,
    begin: int = 0,
    end: int = TUPLES,
    readings: Callable[[], Columns] = columns,
) -> None:
    """Send alternating Arrow and JSON messages, each row once and in order, also across a restart of the broker."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000})
    draw, cooling = readings()
    for number, first in enumerate(range(begin, end, MESSAGE_ROWS)):
        rows = range(first, first + MESSAGE_ROWS)
        if number % 2:
            table = {"draw": draw[rows], "cooling": cooling[rows], "id": np.arange(first, first + MESSAGE_ROWS)}
            producer.produce(topic, as_arrow(pa.record_batch(table)))
        else:
            for i in rows:
                producer.produce(topic, orjson.dumps({"draw": float(draw[i]), "cooling": int(cooling[i]), "id": i}))
        producer.poll(0)
        if stop.wait(pace_s):
            break
    assert producer.flush(PATIENCE_S) == 0
