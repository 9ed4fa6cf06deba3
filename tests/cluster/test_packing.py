"""A release whose roles share a process: moved to other packings while rows flow, and struck, it answers as ever.

Rows are numbered and come from one partition, so every result is compared with a nested loop over all that was sent.
"""

import pytest

from spojoin.runtime.settings import Settings
from tests.cluster.stage import FORCED, staged

#: The services of a release, beside its page and its servers.
TOGETHER = {"together"}
GROUPED = {"router-sink", "mutable-logical-and", "permutation", "pojoin", "controller"}
APART = {"router", "mutable", "permutation", "pojoin", "logical-and", "sink", "controller"}


@pytest.fixture
def stage(namespace, tmp_path, request):
    """A release that is installed together."""
    with staged("packed", tmp_path, "together", packing="together", **getattr(request, "param", {})) as stage:
        yield stage


def test_moves_between_packings_and_deleted_pods_change_no_result(stage):
    assert stage.components() == TOGETHER
    stage.strike("together")
    stage.goes_on()
    stage.move(APART, packing="apart")
    stage.strike("router", *FORCED)
    stage.move(GROUPED, packing="router+sink mutable+logical-and")
    stage.move(TOGETHER, packing="together")
    stage.strike("together", *FORCED)
    stage.goes_on()
    stage.end()


def test_workers_come_and_go_beside_a_shared_process(stage):
    stage.move(
        TOGETHER | {"pojoin", "controller"}, packing="together", **{"pojoin.replicas": 2, "pojoin.maxReplicas": 4}
    )
    for beside in (3, 0, 1):  # one worker is inside
        stage.cluster.scale_workers(beside)
        stage.cluster.wait_ready()
        stage.goes_on()
    assert {"LayoutGrown", "LayoutShrunk"} <= set(stage.cluster.events())
    stage.strike("pojoin", *FORCED)
    stage.goes_on()
    stage.move(TOGETHER, packing="together")
    stage.end()


@pytest.mark.skipif("standbys" not in Settings.model_fields, reason="this version has no standbys")
@pytest.mark.parametrize("stage", [{"standbys": 1}], indirect=True)
def test_standbys_take_over(stage):
    both = {"together", "together-b"}
    assert stage.components() == both
    for struck in ("together", "together-b", "together"):
        stage.strike(struck, *FORCED)
        stage.goes_on()
        stage.cluster.wait_ready()
    # A drain moves one of the two at a time.
    stage.cluster.drain(services="together,together-b")
    stage.goes_on()
    stage.cluster.wait_ready()
    stage.end()
