"""A self join of racks by a statement with columns, filters, texts, NULL and a residual condition: rows and answers."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import yaml
from confluent_kafka import Producer

from tests.support.served import PATIENCE_S
from tests.support.statement_oracle import StatementOracle

ROWS, WINDOW, SLIDE = 4_000, 800, 100
PORTION_ROWS = 100
SITES = ("north", "Süd", "", 'it\'s "East"', None)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("site", pa.string()), ("draw", pa.float64()), ("cooling", pa.int64()), ("note", pa.string())]
)
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


def expected() -> list[tuple[object, ...]]:
    """The results by definition."""
    table = pa.Table.from_pylist(rows(), SCHEMA)
    return StatementOracle({"racks": table}).expected(yaml.safe_load(QUERY)["sql"]).rows


def digest(found: Sequence[tuple[object, ...]]) -> str:
    sha = hashlib.sha256()
    for row in found:
        sha.update(orjson.dumps(row))
    return sha.hexdigest()


def feed(bootstrap: str, topic: str, stop: threading.Event, pace_s: float = 0.05) -> None:
    """Send every row as a JSON message, also across a restart of the broker."""
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
