"""Columns of workers by key, with the predictor: one column, four columns, and two rows of two, while a worker dies.

A few keys are so frequent that they become hot. The ordered output has the same SHA-256 as a nested loop.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from tests.support.readings import QUERY, TUPLES, digest, expected, feed, skewed_columns
from tests.support.served import SIZES, served

pytestmark = pytest.mark.integration

#: Between messages: slow enough that the predictor finds hot keys long before the last row, on a busy machine, too.
PACE_S = 0.25

WITH_KEY = QUERY.replace("l.cooling >= r.cooling", "l.cooling = r.cooling")


@cache
def digest_of_nested_loop() -> str:
    return digest(expected("=", skewed_columns))


@pytest.mark.parametrize(("workers", "columns"), [(1, 1), (4, 4), (4, 2)])
def test_columns_by_key_answer_alike_while_a_worker_dies(
    cluster: LocalCluster, tmp_path: Path, workers: int, columns: int
) -> None:
    text, stop = WITH_KEY.replace("NAME", f"by-key-{workers}-{columns}"), threading.Event()
    settings = {**SIZES, "columns": str(columns), "columns_by": "key"}
    with (
        served(cluster, tmp_path, text, workers, settings, restarts_max=20) as running,
        ThreadPoolExecutor() as pool,
    ):
        topic = running.topics["readings"]
        feeding = pool.submit(feed, cluster.broker.bootstrap, topic, stop, PACE_S, readings=skewed_columns)
        try:
            running.read_until(TUPLES // 2)
            running.kill(f"pojoin-{workers - 1}")
            assert running.output.answered < TUPLES
            running.read_until(TUPLES)
        finally:
            stop.set()
        feeding.result()
        searched = running.measured("pojoin-0", "spojoin_searched_probes_total")
        assert (running.measured("pojoin-0", "spojoin_hot_probes_total") > 0) == (columns > 1)
        assert columns == 1 or searched < TUPLES
    assert digest(iter(running.output.rows)) == digest_of_nested_loop()
