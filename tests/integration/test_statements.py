"""Columns, filters, texts, NULL and a residual condition in all services, which are killed one after the other.

The ordered rows have the same SHA-256 as a nested loop over the inputs, for one worker and for three.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from tests.support import racks
from tests.support.served import SIZES, Served, served

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def expected_rows() -> list[tuple[object, ...]]:
    return list(racks.expected())


@pytest.mark.parametrize(("packing", "workers"), [("router+mutable+permutation sink+logical-and", 1), ("apart", 3)])
def test_killed_services_give_the_rows_of_a_nested_loop(
    own_cluster: LocalCluster, tmp_path: Path, expected_rows: list[tuple[object, ...]], packing: str, workers: int
) -> None:
    text, stop = racks.QUERY.replace("NAME", f"statement-{workers}"), threading.Event()
    numbered = racks.numbered()
    with (
        served(
            own_cluster, tmp_path, text, workers, SIZES, restarts_max=20, columns=racks.COLUMNS, packing=packing
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        killing = pool.submit(kill_each, running, stop)
        feeding = pool.submit(racks.feed, own_cluster.broker.bootstrap, running.topics["racks"], stop)
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
    assert racks.digest(running.output.rows) == racks.digest(expected_rows)


def kill_each(running: Served, stop: threading.Event) -> None:
    """Kill every service with SIGKILL, a second apart."""
    for name in running.services:
        if stop.wait(1.0):
            return
        running.kill(name)
