"""Results in two and four partitions: one SHA-256 of the ordered output, with a sink killed among them.

The query's name, its services' kills and the readers are real; the ordered output is that of a nested loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import spojoin
from spojoin.local.cluster import LocalCluster
from tests.support.readings import QUERY, TUPLES, digest, expected, feed
from tests.support.served import COUNTS, PATIENCE_S, SIZES, served

pytestmark = pytest.mark.integration

#: All roles but the sinks in one process.
SINKS_APART = "router+mutable+permutation+pojoin+logical-and"


def connected(bootstrap: str, query: str) -> Iterator[tuple[int, ...]]:
    """The rows that a client gets, in its order."""
    with spojoin.connect(bootstrap).results(query, follow=False) as batches:
        for batch in batches:
            yield from zip(*(batch.column(name).to_pylist() for name in COUNTS), strict=True)


@pytest.mark.parametrize("sinks", [2, 4])
def test_any_number_of_sinks_gives_the_same_output_in_order(cluster: LocalCluster, tmp_path: Path, sinks: int) -> None:
    text, stop = QUERY.replace("NAME", f"sinks{sinks}"), threading.Event()
    settings = {**SIZES, "sinks": str(sinks)}
    names = [f"sink-{number}" for number in range(sinks)]
    with (
        served(cluster, tmp_path, text, 1, settings, restarts_max=20, packing=SINKS_APART) as running,
        ThreadPoolExecutor() as pool,
    ):
        assert set(names) <= running.services.keys()
        feeding = pool.submit(feed, cluster.broker.bootstrap, running.topics["readings"], stop, 0.25)
        try:
            for part, name in enumerate(names, start=1):
                running.read_until(TUPLES * part // (2 * len(names)))
                running.kill(name)
            running.read_until(TUPLES)
        finally:
            stop.set()
        feeding.result()
        wanted = digest(expected())
        assert digest(iter(running.output.rows)) == wanted
        assert digest(connected(cluster.broker.bootstrap, running.query.name)) == wanted


def test_another_number_of_sinks_begins_with_the_next_generation(cluster: LocalCluster, tmp_path: Path) -> None:
    text, bootstrap = QUERY.replace("NAME", "moresinks"), cluster.broker.bootstrap
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        with served(cluster, tmp_path, text, 1, {**SIZES, "sinks": "1"}, packing=SINKS_APART) as running:
            feeding = pool.submit(feed, bootstrap, running.topics["readings"], stop, 0.25)
            running.read_until(TUPLES // 4)
        settings = {**SIZES, "sinks": "3", "replace": "true"}
        with served(cluster, tmp_path, text, 1, settings, packing=SINKS_APART) as running:
            deadline = time.monotonic() + PATIENCE_S
            while (rows := list(connected(bootstrap, running.query.name)))[TUPLES - 1 :] == []:
                running.supervisor.tend()
                assert time.monotonic() < deadline, f"{len(rows)} of {TUPLES} rows"
                time.sleep(1.0)
        stop.set()
        feeding.result()
    assert digest(iter(rows)) == digest(expected())
