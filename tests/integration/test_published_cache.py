"""The distributed cache of the published state schemes through a real Redis: the same errors as through memory."""

import numpy as np
import pytest

from spojoin.published.errors import count
from spojoin.published.setup import Setup
from spojoin.published.state import Scheme, Workers
from spojoin.runtime.memory import MemoryStore
from spojoin.runtime.redis_store import RedisStore

TUPLES = 4_000


@pytest.mark.integration
def test_the_cache_is_wrong_in_the_same_way_through_redis(redis_url):
    keys = np.random.default_rng(1).integers(0, 9, TUPLES)
    told = []
    store = RedisStore(redis_url, timeout_s=5)
    for each in (store, MemoryStore()):
        workers = Workers(Setup(1_000, 200, 50, 4, 20_000.0), Scheme.DISTRIBUTED_CACHE_UNSAFE, each)
        told.append(count(workers, workers.take(TUPLES), lambda probes, stored: keys[probes][:, None] > keys[stored]))
    store.close()
    assert told[0] == told[1]
    assert told[0].false_positives > 0
