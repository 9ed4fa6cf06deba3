"""Any number of mutable joiners and logical ANDs: the rows equal a nested loop's, regardless of which of them dies."""

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

PACE_S = 0.03
ALONE = "router+permutation+pojoin+sink"


@pytest.fixture(scope="module")
def nested_loop() -> list[tuple[int, ...]]:
    return list(expected())


@pytest.mark.parametrize(("joiners", "busy", "logical_ands"), [long_only(1, 1, 3), (5, 4, 2)])
def test_predicates_and_frames_are_shared_among_any_number_of_joiners_and_logical_ands(
    cluster: LocalCluster,
    tmp_path: Path,
    nested_loop: list[tuple[int, ...]],
    joiners: int,
    busy: int,
    logical_ands: int,
) -> None:
    text = QUERY.replace("NAME", f"joiners-{joiners}")
    bootstrap, stop = cluster.broker.bootstrap, threading.Event()

    def holds(name: str) -> bool:
        return running.measured(name, "spojoin_state_tuples") > 0

    settings = {**SIZES, "logical_ands": str(logical_ands)}
    with (
        served(
            cluster, tmp_path, text, 1, settings, without=(Role.PREDICTOR,), joiners=joiners, packing=ALONE
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        names = [name for name in running.services if name.startswith(Role.MUTABLE)]
        assert names == [f"mutable-{number}" for number in range(joiners)]
        try:
            feeding = pool.submit(feed, bootstrap, running.topics["readings"], stop, PACE_S)
            running.read_until(TUPLES // 2)
            running.kill("mutable-0")
            running.kill("logical-and-1")
            running.read_until(TUPLES)
            feeding.result()
        finally:
            stop.set()
        # Services measure themselves once a second, and the killed one has just begun.
        running.until(lambda: all(map(holds, names[:busy])), lambda: f"one of {names} holds nothing")
        assert not any(map(holds, names[busy:]))
    assert running.output.rows == nested_loop
