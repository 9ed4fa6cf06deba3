"""Skewed keys: how evenly PPOIJ's patterns load their workers, in tuples held and comparisons made.

Counts of a run in one process, from a fixed seed: no times. Loads count from when the calibration is over and what was
stored before it has left the windows.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.published.layouts.catalog import chosen_layout
from spojoin.published.layouts.load import imbalance
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

WORKERS, KEYS, TUPLES, CALIBRATION, WINDOW_MS = 8, 100, 60_000, 20_000, 5_000
SEED = 11
SKEWS = (0.35, 1.0)
QUERY = parse_query(
    "name: q\nstreams:\n  a: {schema: {k: long, x: int, at: timestamp}, time: at}\n"
    "  b: {schema: {k: long, x: int, at: timestamp}, time: at}\n"
    "sql: SELECT * FROM a AS l JOIN b AS r ON l.k = r.k AND l.x < r.x "
    f"AND ABS(l.at - r.at) <= INTERVAL '{WINDOW_MS} ms'\n"
)


def zipf(skew, tuples, rng):
    """Keys in a Zipf distribution: the k-th most frequent in proportion to k**-skew; key numbers shuffled."""
    shares = np.arange(1, KEYS + 1, dtype=np.float64) ** -skew
    return np.random.default_rng(7).permutation(KEYS)[rng.choice(KEYS, tuples, p=shares / shares.sum())]


def batches(skew):
    """Rows of both streams in pieces, one row per stream and millisecond; deterministic."""
    rng = np.random.default_rng(SEED)
    for begin in range(0, TUPLES // 2, 1_000):
        times = pa.array(np.arange(begin, begin + 1_000), pa.timestamp("ms"))
        for stream in (0, 1):
            columns = {"k": zipf(skew, 1_000, rng), "x": rng.integers(0, 9, 1_000)}
            yield stream, pa.record_batch({**columns, "at": times})


def loads(engine):
    reported = engine.layout_measures()["per_worker"]
    return {name: np.array([load[name] for load in reported]) for name in ("stored", "examined", "messages")}


@cache
def run(name, skew, *options):
    """What each worker stored and compared after the calibration, and the rows of the results."""
    calibration = [f"calibration={CALIBRATION}"] if name == "hp" else []
    query = chosen_layout(QUERY, name, WORKERS, [*calibration, *options])
    engine = Engine(query, RouterConfig("r", WORKERS, frame_tuples=1_024, credits_frames=UNLIMITED))
    rows, before = [], None
    for stream, batch in batches(skew):
        rows += engine.feed(stream, batch)
        if before is None and engine.tuples > CALIBRATION + 3 * WINDOW_MS:
            before = loads(engine)
    rows += engine.flush()
    after = loads(engine)
    return {name: after[name] - before[name] for name in after}, pa.Table.from_batches(rows)


@pytest.mark.parametrize("skew", SKEWS)
def test_the_hybrid_is_balanced_where_key_partitioning_is_not(skew):
    kp, expected = run("kp", skew)
    hp, found = run("hp", skew)
    assert found.equals(expected)
    assert imbalance(hp["stored"].tolist()) <= 1.1 < imbalance(kp["stored"].tolist())
    assert imbalance(hp["examined"].tolist()) <= 1.1 < imbalance(kp["examined"].tolist())
    assert np.std(hp["examined"]) < np.std(kp["examined"]) / 2
    # Data parallel sends every tuple to all workers, key partitioning to one.
    assert kp["messages"].sum() < hp["messages"].sum() < kp["messages"].sum() * WORKERS


def test_algorithm_1_balances_tuples_with_fewer_messages_but_not_comparisons():
    both, _ = run("hp", 1.0)
    tuples, _ = run("hp", 1.0, "balance=tuples")
    assert imbalance(tuples["stored"].tolist()) <= 1.1
    assert imbalance(tuples["examined"].tolist()) > 1.1
    assert tuples["messages"].sum() < both["messages"].sum()
