"""The published state schemes' distributed cache in a real Redis: the same errors as in memory."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from loadgen.papers.methods.machine import SIDES
from loadgen.papers.schemes.spo_paper_unsafe import side_of, simulated
from loadgen.papers.schemes.state import Scheme, Setup, SimulatedWorkers, count
from spojoin.embedded.engine import Engine
from spojoin.ports.memory import MemoryStore
from spojoin.ports.redis_store import RedisStore
from spojoin.query.load import parse_query

TUPLES = 4_000
QUERY = """
name: q3
streams:
  racks:
    schema: {power: double, cooling: double}
sql: |
  SELECT * FROM racks AS l JOIN racks AS r ON l.power < r.power AND l.cooling > r.cooling
  WINDOW AS (SLIDE INTERVAL '200' ON '1K')
output: count
"""


@pytest.mark.integration
def test_the_cache_is_wrong_in_the_same_way_through_redis(redis_url):
    keys = np.random.default_rng(1).integers(0, 9, TUPLES)
    counts = []
    store = RedisStore(redis_url, timeout_s=5)
    for each in (store, MemoryStore()):
        workers = SimulatedWorkers(Setup(1_000, 200, 50, 4, 20_000.0), Scheme.DISTRIBUTED_CACHE_UNSAFE, each)
        counts.append(count(workers, workers.take(TUPLES), lambda probes, stored: keys[probes][:, None] > keys[stored]))
    store.close()
    assert counts[0] == counts[1]
    assert counts[0].false_positives > 0


@pytest.mark.integration
def test_the_method_counts_the_same_wrong_pairs_through_redis(redis_url, monkeypatch):
    monkeypatch.setitem(SIDES, "spo_paper", side_of)
    rows = np.random.default_rng(2).integers(0, 9, (2, TUPLES))
    batch = pa.record_batch({"power": rows[0].astype(float), "cooling": rows[1].astype(float)})
    counts = []
    for cache in (redis_url, "memory"):
        method = simulated({"cache": cache, "state": "distributed_cache_unsafe", "rate": "50000"})
        engine = Engine(dataclasses.replace(parse_query(QUERY), method=method))
        found = [*engine.feed(0, batch), *engine.flush()]
        counts.append((sum(part.num_rows for part in found), engine.matches, engine.counters()["false_positives"]))
    assert counts[0] == counts[1]
    assert counts[0][0] == TUPLES
    assert counts[0][2] > 0
