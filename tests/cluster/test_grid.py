"""A release whose workers stand in a grid, with an intake and several joiners, logical ANDs and sinks, answers as ever.

While rows flow, pods of every role are deleted, a person and the controller change the number of workers, and upgrades
change the grid. Rows are numbered and come from one partition, so every result is compared, in order, with a nested
loop over all that was sent.
"""

import pytest

from tests.cluster.release import eventually
from tests.cluster.stage import FORCED, staged

#: Two rows of everything but intake and sinks: the query has two predicates.
GRID = {
    "pojoin.replicas": 4,
    "pojoin.columns": 2,
    "mutable.replicas": 4,
    "logicalAnd.replicas": 2,
    "sink.replicas": 2,
    "intake.replicas": 1,
}
SERVICES = ("intake", "router", "mutable", "permutation", "pojoin", "logical-and", "sink", "controller")


@pytest.fixture
def stage(namespace, tmp_path):
    with staged("grid", tmp_path, "sink-0", **GRID) as stage:
        eventually(lambda: stage.cluster.workers() == 4, 60, stage.cluster.workers)
        stage.cluster.wait_ready()
        yield stage


def test_deletions_rescales_and_other_grids_change_no_result(stage):
    assert stage.components() == set(SERVICES)
    for service in SERVICES:
        stage.strike_one(service)
        stage.goes_on()
    for workers in (6, 3):  # three rows, then one and a worker beyond the grid
        stage.cluster.scale_workers(workers)
        stage.strike_one("pojoin")
        stage.cluster.wait_ready()
        stage.goes_on()
    assert {"LayoutGrown", "LayoutShrunk"} <= set(stage.cluster.events())
    # A row of four and one left over, three rows of one, and the first grid again; the controller sets the numbers.
    for workers, values in (
        (5, {"pojoin.columns": 4, "mutable.replicas": 2}),
        (3, {"pojoin.columns": 1, "logicalAnd.replicas": 1}),
        (4, {}),
    ):
        stage.helm("upgrade", **{"pojoin.replicas": workers, **values})
        eventually(lambda wanted=workers: stage.cluster.workers() == wanted, 120, stage.cluster.workers)
        stage.strike_one("pojoin")
        stage.cluster.wait_ready(300)
        stage.goes_on()
    for service in ("sink", "logical-and", "mutable"):
        stage.strike(service, *FORCED)
    stage.cluster.wait_ready(300)
    stage.goes_on()
    stage.end()
