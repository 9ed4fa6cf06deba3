"""A worker of several rows, or an answerer, is lost for good while data flows: the others answer in its place.

The ordered output has the same SHA-256 as a nested loop over the inputs.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from tests.support.readings import QUERY, TUPLES, digest, expected, feed
from tests.support.served import SIZES, served

pytestmark = pytest.mark.integration

WORKERS = 4


@pytest.mark.parametrize("columns", [1, 2])
def test_answerers_stand_in_for_one_that_never_comes_back(cluster: LocalCluster, tmp_path: Path, columns: int) -> None:
    """Another one is killed and restarted before that."""
    text, stop = QUERY.replace("NAME", f"answerers-{columns}"), threading.Event()
    settings = {**SIZES, "columns": str(columns)}
    with (
        served(cluster, tmp_path, text, WORKERS, settings, restarts_max=20, packing="answerer") as running,
        ThreadPoolExecutor() as pool,
    ):
        assert not [name for name in running.services if name.startswith(("mutable", "logical-and"))]
        feeding = pool.submit(feed, cluster.broker.bootstrap, running.topics["readings"], stop, 0.1)
        lost = running.supervisor.pids()["pojoin-1"]
        try:
            running.read_until(TUPLES // 8)
            running.kill("pojoin-2")
            running.read_until(TUPLES // 4)
            os.kill(lost, signal.SIGSTOP)
            running.read_until(TUPLES)
        finally:
            os.kill(lost, signal.SIGCONT)
            stop.set()
        feeding.result()
    assert digest(iter(running.output.rows)) == digest(expected())


def test_one_row_answers_for_a_worker_that_never_comes_back(cluster: LocalCluster, tmp_path: Path) -> None:
    """The worker is stopped by SIGSTOP, so that the supervisor starts no other."""
    text, stop = QUERY.replace("NAME", "lone-row"), threading.Event()
    with served(cluster, tmp_path, text, 2, {**SIZES, "columns": "1"}) as running, ThreadPoolExecutor() as pool:
        feeding = pool.submit(feed, cluster.broker.bootstrap, running.topics["readings"], stop, 0.1)
        lost = running.supervisor.pids()["pojoin-1"]
        try:
            running.read_until(TUPLES // 4)
            replays = running.measured("pojoin-0", "spojoin_replays_total")
            os.kill(lost, signal.SIGSTOP)
            running.read_until(TUPLES)
        finally:
            os.kill(lost, signal.SIGCONT)
            stop.set()
        feeding.result()
        assert running.measured("pojoin-0", "spojoin_stand_in_frames_total") > 0
        assert running.measured("pojoin-0", "spojoin_replays_total") == replays
    assert digest(iter(running.output.rows)) == digest(expected())
