"""One SHA-256 of the ordered output in any layout: grids by batch and by key, sinks, intakes and packings.

Processes of each layout are killed while rows flow. A few keys are so frequent that they become hot.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.packing import APART, TOGETHER
from tests.support.readings import QUERY, TUPLES, digest, expected, feed, skewed_columns
from tests.support.served import SIZES, served

pytestmark = pytest.mark.integration

#: Between messages: slow enough that the predictor finds hot keys long before the last row, on a busy machine, too.
PACE_S = 0.25

WITH_KEY = QUERY.replace("l.cooling >= r.cooling", "l.cooling = r.cooling")


class Layout(NamedTuple):
    """Workers, how many of what else there are, and the processes to kill."""

    workers: int
    more: Mapping[str, str]
    struck: tuple[str, ...]
    packing: str = APART

    @property
    def finds_hot_keys(self) -> bool:
        """Whether several columns are by key, so that hot keys are spread over them."""
        return self.more.get("columns_by") == "key" and int(self.more["columns"]) > 1


LAYOUTS = {
    "together": Layout(1, {}, (TOGETHER,), TOGETHER),
    "4x1": Layout(4, {"sinks": "2", "logical_ands": "2"}, ("pojoin-3", "sink-1", "logical-and-0")),
    "1x4-by-key": Layout(4, {"columns": "4", "columns_by": "key"}, ("pojoin-3", "predictor")),
    "2x2-by-key-answerers": Layout(
        4,
        {"columns": "2", "columns_by": "key", "sinks": "2", "intakes": "1"},
        ("pojoin-3", "intake-0", "sink-0"),
        "answerer",
    ),
    "1x4-answerers": Layout(
        4, {"columns": "4", "sinks": "4", "intakes": "2"}, ("pojoin-1", "sink-3", "router"), "answerer"
    ),
    "2x2-groups": Layout(4, {"columns": "2", "intakes": "1"}, ("router+permutation", "intake-0"), "router+permutation"),
}


@cache
def digest_of_nested_loop() -> str:
    return digest(expected("=", skewed_columns))


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_answers_alike_while_its_processes_die(cluster: LocalCluster, tmp_path: Path, name: str) -> None:
    layout, stop = LAYOUTS[name], threading.Event()
    text, settings = WITH_KEY.replace("NAME", f"layout-{name}"), {**SIZES, **layout.more}
    with (
        served(cluster, tmp_path, text, layout.workers, settings, restarts_max=20, packing=layout.packing) as running,
        ThreadPoolExecutor() as pool,
    ):
        topic = running.topics["readings"]
        feeding = pool.submit(feed, cluster.broker.bootstrap, topic, stop, PACE_S, readings=skewed_columns)
        try:
            for part, struck in enumerate(layout.struck, start=1):
                running.read_until(TUPLES * part // (len(layout.struck) + 1))
                running.kill(struck)
            assert running.output.answered < TUPLES
            running.read_until(TUPLES)
        finally:
            stop.set()
        feeding.result()
        if layout.finds_hot_keys:
            assert running.measured("pojoin-0", "spojoin_hot_probes_total") > 0
            assert running.measured("pojoin-0", "spojoin_searched_probes_total") < TUPLES
    assert digest(iter(running.output.rows)) == digest_of_nested_loop()
