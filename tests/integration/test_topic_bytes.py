"""EXPLAIN's bytes of rows in each topic match the real broker's log within a factor of two."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spojoin.explain.footprint import SetupSizes
from spojoin.explain.topic_bytes import topic_bytes
from spojoin.local.cluster import LocalCluster
from spojoin.protocol.topology import Topic, topic_name
from tests.support.long import long_only
from tests.support.readings import feed, query_text
from tests.support.served import COUNTS, served

pytestmark = pytest.mark.integration

WITHIN = 2.0
WORKERS = 2
PAIRS = ("SELECT l.draw, r.draw AS less, r.cooling", "draw >= r.draw AND l.draw <= r.draw AND l.cooling = r.cooling")


def text(name: str, *, lists: bool) -> str:
    counts = query_text(name, window=2_000, slide=100)
    if not lists:
        return counts
    pairs = counts.replace("SELECT *", PAIRS[0]).replace("draw < r.draw AND l.cooling >= r.cooling", PAIRS[1])
    return pairs.replace("output: count\n", "")


def taken(cluster: LocalCluster, topic: str) -> int:
    """The bytes of a topic's log."""
    return sum(file.stat().st_size for file in (cluster.broker.folder / "data").glob(f"{topic}-*/*.log"))


@pytest.mark.parametrize(
    ("frame_tuples", "rows", "lists"),
    [
        pytest.param(1, 2_000, False, id="counts of rows alone"),
        pytest.param(256, 12_000, True, id="pairs of large frames"),
        long_only(1, 2_000, True, id="pairs of rows alone"),
        long_only(256, 12_000, False, id="counts of large frames"),
    ],
)
def test_the_log_takes_what_explain_says(
    cluster: LocalCluster, tmp_path: Path, unique: str, frame_tuples: int, rows: int, lists: bool
) -> None:
    sizes = SetupSizes(batch_tuples=500, frame_tuples=frame_tuples, workers=WORKERS)
    settings = {"batch_tuples": "500", "frame_tuples": str(frame_tuples), "credits_frames": "32", "linger_ms": "60"}
    columns = ("draw", "less", "cooling") if lists else COUNTS
    with served(cluster, tmp_path, text(unique, lists=lists), WORKERS, settings, columns=columns) as running:
        feed(cluster.broker.bootstrap, running.topics["readings"], threading.Event(), 0.0, 0, rows)
        running.read_until(rows)
        frames, matches = running.output.frames, len(running.output.rows) * lists
    found = {}
    for topic in Topic:
        said = topic_bytes(running.query, topic, sizes, rows / frames)
        if said is not None:
            estimate = said.row * rows + said.match * matches
            found[topic.value] = round(estimate / taken(cluster, topic_name(unique, topic)), 2)
    print(found)
    assert found.keys() == {"frames", "runs", "batches", "partials", "matches", "results"}
    assert {name: ratio for name, ratio in found.items() if not 1 / WITHIN <= ratio <= WITHIN} == {}, found
