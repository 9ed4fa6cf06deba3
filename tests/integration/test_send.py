"""Two sorted files, sent to services on a busy machine, give the results of `spojoin run`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest

from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles
from spojoin.local.cluster import LocalCluster
from spojoin.query.load import load_query
from tests.support.long import long_only
from tests.support.served import send, served

pytestmark = pytest.mark.integration

ORDERS, VIEWS = 30_000, 36_000
#: In each file, how many rows the query filters out, and how many it refuses.
FILTERED, BAD = 500, 7
QUERY = """
name: sent-KIND
streams:
  orders: {schema: {id: long, customer: long, at: timestamp(us)}, time: at}
  views: {schema: {id: long, customer: long, at: timestamp(us)}, time: at}
sql: |
  SELECT l.id, r.id AS view FROM orders AS l KIND JOIN views AS r
  ON l.customer = r.customer AND r.at BETWEEN l.at - INTERVAL '1 s' AND l.at + INTERVAL '2 s' AND r.id >= 0
  WHERE l.id >= 0
"""


def write(path: Path, rows: int, seed: int) -> Path:
    """Write rows in the order of their distinct times; some are filtered out, and some have no customer."""
    rng = np.random.default_rng(seed)
    at = 1_700_000_000_000_000 + np.sort(rng.choice(3_600_000_000, rows, replace=False))
    ids, customers = np.arange(rows), rng.integers(0, 500, rows).astype(str)
    some = rng.permutation(rows)
    ids[some[:FILTERED]] *= -1
    ids[some[:FILTERED]] -= 1
    customers[some[FILTERED : FILTERED + BAD]] = "nobody"
    lines = [f"{one},{customer},{time}\n" for one, customer, time in zip(ids, customers, at, strict=True)]
    path.write_text("id,customer,at\n" + "".join(lines))
    return path


@contextmanager
def a_busy_machine() -> Iterator[None]:
    """Run several busy processes per core."""
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=_spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


def of_a_run(query_file: Path, files: dict[str, Path]) -> list[tuple[int, int | None]]:
    output = query_file.parent / "run.jsonl"
    run(load_query(query_file), RunFiles(files, output))
    return [(row["id"], row["view"]) for row in map(orjson.loads, output.read_bytes().splitlines())]


@pytest.mark.alone
@pytest.mark.parametrize(("kind", "partitions"), [long_only("INNER", 1), ("LEFT", 2)])
def test_what_was_sent_is_answered_as_a_run_answers_it(
    cluster: LocalCluster, tmp_path: Path, kind: str, partitions: int
) -> None:
    files = {"orders": write(tmp_path / "orders.csv", ORDERS, 1), "views": write(tmp_path / "views.csv", VIEWS, 2)}
    text = QUERY.replace("KIND", kind if kind == "LEFT" else "").replace("sent-", f"sent-{kind}".lower())
    with served(
        cluster, tmp_path, text, 1, {}, partitions=partitions, columns=("id", "view"), packing="together"
    ) as running:
        with a_busy_machine():
            sent = send(running, cluster, *(part for n, f in files.items() for part in ("-i", f"{n}={f}")))
        taken = ORDERS + VIEWS - 2 * FILTERED - 2 * BAD
        assert f"{taken:,} rows taken, {2 * FILTERED:,} filtered out, {2 * BAD} refused: {2 * BAD} type" in sent.stdout
        assert sent.returncode == 1, "rows were refused"
        expected = of_a_run(tmp_path / "query.yaml", files)
        running.until(lambda: len(running.output.rows) >= len(expected), lambda: f"{len(running.output.rows)} rows")
    assert running.output.rows == expected


def test_an_input_that_is_not_sent_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    files = {"orders": write(tmp_path / "orders.csv", 2_000, 1), "views": write(tmp_path / "views.csv", 1_000, 2)}
    with served(
        cluster, tmp_path, QUERY.replace("KIND JOIN", "JOIN").replace("KIND", "one"), 1, {},
        columns=("id", "view"), packing="together",
    ) as running:  # fmt: skip
        first = send(running, cluster, "-i", f"orders={files['orders']}")
        assert f"event time waits for {running.topics['views']}" in first.stdout, first.stdout + first.stderr
        send(running, cluster, "-i", f"views={files['views']}")
        expected = of_a_run(tmp_path / "query.yaml", files)
        running.until(lambda: len(running.output.rows) >= len(expected), lambda: f"{len(running.output.rows)} rows")
    assert running.output.rows == expected
