"""A self join of racks by a statement with columns, filters, texts, NULL and a residual condition: rows and answers."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import orjson
from confluent_kafka import Producer

from tests.support.served import PATIENCE_S

ROWS, WINDOW, SLIDE = 4_000, 800, 100
PORTION_ROWS = 100
SITES = ("north", "Süd", "", 'it\'s "East"', None)
COLUMNS = ("id", "other", "site", "gap", "l_seq", "r_seq")

STREAMS = "streams: {racks: {schema: {id: long, site: string, draw: double, cooling: long, note: string}}}"
QUERY = f"""
name: NAME
{STREAMS}
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


def feed(bootstrap: str, topic: str, stop: threading.Event, pace_s: float = 0.05) -> None:
    """Every row as a JSON message, also across a restart of the broker."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000})
    for number, row in enumerate(rows()):
        producer.produce(topic, orjson.dumps(row))
        producer.poll(0)
        if (number + 1) % PORTION_ROWS == 0 and stop.wait(pace_s):
            break
    assert producer.flush(PATIENCE_S) == 0


def numbered() -> int:
    """How many rows take a number."""
    return sum(row["cooling"] > 3 or row["note"] is not None for row in rows())  # type: ignore[operator]
