"""A query over another query's results: both are served and lose all services, and every row is right."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from spojoin.local.cluster import LocalCluster
from tests.support import racks
from tests.support.nested_loop import counts, pairs_of_rows
from tests.support.served import SIZES, Served, served

pytestmark = pytest.mark.integration

FIRST_WINDOW, SECOND_WINDOW = 100, 40
FIRST = f"""
name: chained-first
{racks.STREAMS}
sql: |
  SELECT l.id, COUNT(*) AS rivals, l.draw
  FROM racks AS l JOIN racks AS r ON l.draw < r.draw AND l.cooling > r.cooling
  WHERE l.draw IS NOT NULL AND r.draw IS NOT NULL
  GROUP BY l WINDOW AS (SLIDE INTERVAL '1' ON '{FIRST_WINDOW}') EMIT ON ARRIVAL
"""
SECOND = f"""
name: chained-second
streams: {{busy: {{query: chained-first}}}}
sql: |
  SELECT l.id, r.id AS other, l.rivals, r.rivals AS fewer
  FROM busy AS l JOIN busy AS r ON l.rivals > r.rivals AND l.draw <= r.draw
  WINDOW AS (SLIDE INTERVAL '1' ON '{SECOND_WINDOW}')
"""
COLUMNS = ("id", "other", "rivals", "fewer")

#: id, rivals, draw
Busy = tuple[int, int, float]


def busy() -> Iterator[Busy]:
    """The first query's results by definition."""
    rows = [row for row in racks.rows() if row["draw"] is not None]
    columns = [np.array([row[name] for row in rows]) for name in ("draw", "cooling")]
    found = counts(columns, lambda left, right: (left[0] < right[0]) & (left[1] > right[1]), FIRST_WINDOW)
    for seq, rivals, _ in found:
        if rivals:
            yield rows[seq]["id"], rivals, rows[seq]["draw"]  # type: ignore[misc]


def expected() -> Iterator[tuple[int, int, int, int]]:
    """The second query's results by definition, over the results of the first."""
    rows = list(busy())
    found = pairs_of_rows(rows, lambda left, right: left[1] > right[1] and left[2] <= right[2], SECOND_WINDOW)
    for _, one, two in found:
        yield rows[one][0], rows[two][0], rows[one][1], rows[two][1]


def test_kills_in_both_queries_leave_the_results_as_they_are(cluster: LocalCluster, tmp_path: Path) -> None:
    answers, stop = list(expected()), threading.Event()
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "chained-first.yaml").write_text(FIRST)
    with (
        served(cluster, folders[0], FIRST, 1, SIZES, restarts_max=20, columns=("id",), packing="together") as first,
        served(cluster, folders[1], SECOND, 1, SIZES, restarts_max=20, columns=COLUMNS, packing="together") as second,
        ThreadPoolExecutor() as pool,
    ):

        def is_done() -> bool:
            first.supervisor.tend()
            return len(second.output.rows) >= len(answers) and losing.done() and feeding.done()

        losing = pool.submit(lose_each, [first, second], stop)
        feeding = pool.submit(racks.feed, cluster.broker.bootstrap, first.topics["racks"], stop, 0.2)
        try:
            second.until(is_done, lambda: f"{len(second.output.rows)} of {len(answers)} rows")
        finally:
            stop.set()
        losing.result()
        feeding.result()
    assert len(second.output.rows) == len(answers)
    assert racks.digest(second.output.rows) == racks.digest(answers)


def lose_each(queries: list[Served], stop: threading.Event) -> None:
    """Kill every service of both queries with SIGKILL, a second apart, twice."""
    for running in [*queries, *queries]:
        for service in running.services:
            if stop.wait(1.0):
                return
            running.kill(service)
