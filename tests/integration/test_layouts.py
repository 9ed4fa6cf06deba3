"""One SHA-256 of the ordered output in any layout: packings, columns by batch and by key, sinks and intakes.

In each layout, four workers stand in one grid after the other while rows flow: 4 x 1, 1 x 1, 2 x 2 and 1 x 4. In each
grid, processes are killed. A few keys are so frequent that they become hot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.services import renewed
from spojoin.ports.interfaces import LogPartition, SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import key
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import Topic, topic_name
from spojoin.roles.controller.control_topic import ControlTopic
from tests.support.readings import QUERY, TUPLES, digest, expected, feed, skewed_columns
from tests.support.served import SIZES, Served, served

pytestmark = pytest.mark.integration

#: Between messages: slow enough that the predictor finds hot keys long before the last row, on a busy machine, too.
PACE_S = 0.25
WORKERS = 4

WITH_KEY = QUERY.replace("l.cooling >= r.cooling", "l.cooling = r.cooling")


class Shape(NamedTuple):
    """The workers of a grid, and how many columns they stand in."""

    workers: int
    columns: int


#: In the order in which they follow each other.
SHAPES = (Shape(WORKERS, 1), Shape(1, 1), Shape(WORKERS, 2), Shape(WORKERS, 4))


class Layout(NamedTuple):
    """Which roles share a process, how many of what else there are, and the process to kill in each grid."""

    packing: str
    settings: Mapping[str, str]
    struck: tuple[str, str, str, str]

    @property
    def finds_hot_keys(self) -> bool:
        """Whether columns are by key, so that hot keys are spread over them."""
        return self.settings.get("columns_by") == "key"

    @property
    def router(self) -> str:
        """The name of the router's process."""
        return self.packing if self.packing.startswith("router") or self.packing == TOGETHER else "router"


BY_KEY = {"columns_by": "key"}
LAYOUTS = {
    "together": Layout(TOGETHER, {}, ("pojoin-3", TOGETHER, TOGETHER, "pojoin-2")),
    "apart": Layout(
        APART,
        {"sinks": "2", "intakes": "1", "logical_ands": "2"},
        ("pojoin-3", "sink-1", "intake-0", "logical-and-1"),
    ),
    "apart-by-key": Layout(
        APART, {"sinks": "4", "intakes": "2", **BY_KEY}, ("sink-3", "predictor", "mutable-1", "pojoin-1")
    ),
    "answerers": Layout("answerer", {"sinks": "4", "intakes": "4"}, ("pojoin-3", "pojoin-0", "router", "sink-2")),
    "answerers-by-key": Layout(
        "answerer", {"sinks": "2", "intakes": "1", **BY_KEY}, ("pojoin-1", "intake-0", "pojoin-3", "permutation")
    ),
    "groups": Layout(
        "router+permutation", {"intakes": "2"}, ("intake-1", "pojoin-0", "router+permutation", "mutable-0")
    ),
    "groups-by-key": Layout(
        "router+sink", {"intakes": "4", **BY_KEY}, ("pojoin-2", "intake-0", "router+sink", "predictor")
    ),
}


@dataclass(frozen=True, slots=True)
class Operator:
    """Changes the grid of a served query as its operator does."""

    running: Served
    router: str
    control: ControlTopic
    store: RedisStore

    def change_grid(self, shape: Shape) -> None:
        """Request workers, give the router other columns, and wait until frames of the new grid have results."""
        if self._head()["workers"] != str(shape.workers):
            self.control.refresh()
            self.control.request(shape.workers)
            self._wait_for(f"{shape.workers} workers", lambda: self._head()["workers"] == str(shape.workers))
        if shape.columns > 1:
            router = renewed(self.running.services[self.router], {"columns": str(shape.columns)})
            self.running.supervisor.renew([router])
            self._wait_for("another router", lambda: self.running.supervisor.is_renewed)
        newest = int(self._head()["frame_id"])
        self._wait_for(f"results of frame {newest}", lambda: self.running.output.frames > newest)

    def _head(self) -> dict[str, str]:
        return self.store.get(key(self.running.query.name, "head"))

    def _wait_for(self, what: str, has_come: Callable[[], bool]) -> None:
        self.running.until(has_come, lambda: f"no {what}")


def control_topic(cluster: LocalCluster, query: str) -> ControlTopic:
    """A new topic of requested worker counts, which routers read if it is there when they start."""
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    source = LogPartition(topic_name(query, Topic.CONTROL), 0)
    log.create_topics({source.topic: 1})
    return ControlTopic(log, source, SystemClock())


@cache
def digest_of_nested_loop() -> str:
    return digest(expected("=", skewed_columns))


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_answers_alike_while_grids_change_and_processes_die(
    cluster: LocalCluster, tmp_path: Path, name: str
) -> None:
    layout, stop = LAYOUTS[name], threading.Event()
    query, settings = f"layout-{name}", {**SIZES, "columns": "1", **layout.settings}
    text = WITH_KEY.replace("NAME", query)
    with (
        closing(control_topic(cluster, query)) as control,
        closing(RedisStore(cluster.redis.url)) as store,
        served(cluster, tmp_path, text, WORKERS, settings, restarts_max=20, packing=layout.packing) as running,
        ThreadPoolExecutor() as pool,
    ):
        topic, operator = running.topics["readings"], Operator(running, layout.router, control, store)
        feeding = pool.submit(feed, cluster.broker.bootstrap, topic, stop, PACE_S, readings=skewed_columns)
        try:
            for part, (shape, struck) in enumerate(zip(SHAPES, layout.struck, strict=True)):
                running.read_until(TUPLES * (1 + 2 * part) // 10)
                operator.change_grid(shape)
                running.kill(struck)
            assert running.output.answered < TUPLES
            running.read_until(TUPLES)
        finally:
            stop.set()
        feeding.result()
        assert running.measured("pojoin-3", "spojoin_grid_columns") == SHAPES[-1].columns
        assert running.measured("pojoin-3", "spojoin_records_written_total", topic="matches") > 0
        if layout.finds_hot_keys:
            assert running.measured("pojoin-2", "spojoin_hot_probes_total") > 0
            assert running.measured("pojoin-2", "spojoin_searched_probes_total") < TUPLES
    assert digest(iter(running.output.rows)) == digest_of_nested_loop()
