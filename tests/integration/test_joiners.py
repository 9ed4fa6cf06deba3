"""Fewer mutable joiners than predicates, and more: the rows equal a nested loop's, regardless of which joiner dies."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.topology import Role
from tests.support.long import long_only
from tests.support.readings import QUERY, TUPLES, expected, feed
from tests.support.served import SIZES, served

pytestmark = pytest.mark.integration

PREDICATES, PACE_S = 2, 0.03
JOINERS_ALONE = "router+permutation+pojoin+logical-and+sink"


@pytest.fixture(scope="module")
def nested_loop() -> list[tuple[int, ...]]:
    return list(expected())


@pytest.mark.parametrize("joiners", [long_only(1), 3])
def test_predicates_are_shared_among_any_number_of_joiners(
    cluster: LocalCluster, tmp_path: Path, nested_loop: list[tuple[int, ...]], joiners: int
) -> None:
    text = QUERY.replace("NAME", f"joiners-{joiners}")
    bootstrap, stop = cluster.broker.bootstrap, threading.Event()

    def holds(name: str) -> bool:
        return running.measured(name, "spojoin_state_tuples") > 0

    with (
        served(
            cluster, tmp_path, text, 1, SIZES, without=(Role.PREDICTOR,), joiners=joiners, packing=JOINERS_ALONE
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        names = [name for name in running.services if name.startswith(Role.MUTABLE)]
        assert names == [f"mutable-{number}" for number in range(joiners)]
        try:
            feeding = pool.submit(feed, bootstrap, running.topics["readings"], stop, PACE_S)
            running.read_until(TUPLES // 2)
            running.kill("mutable-0")
            running.read_until(TUPLES)
            feeding.result()
        finally:
            stop.set()
        # Services measure themselves once a second, and the killed one has just begun.
        running.until(lambda: all(map(holds, names[:PREDICATES])), lambda: f"one of {names} holds nothing")
        assert not any(map(holds, names[PREDICATES:]))
    assert running.output.rows == nested_loop
