"""A whole release is measured where the machine has a core for each of its processes, and only there."""

from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.bench.sections import SectionContext
from loadgen.promises.recording import Release
from loadgen.promises.sizes import QUICK
from loadgen.promises.whole import whole_rates
from spojoin.local.cluster import LocalCluster
from spojoin.protocol.grid import Grid

pytestmark = pytest.mark.integration

SMALL = replace(QUICK, window=4_000, services_after=60_000)
#: Two answerers and their sinks beside a router and a permutation service; three more processes apart.
RELEASE = Release(Grid(2, 1), logical_ands=1, sinks=2)
CORES = 8


def test_a_release_that_finds_enough_cores_is_measured(cluster: LocalCluster, tmp_path: Path) -> None:
    said: list[str] = []
    context = SectionContext(SMALL, tmp_path, tmp_path, said.append)
    (found,) = whole_rates(context, cluster, [RELEASE, RELEASE.with_answerers], CORES)
    assert found.name == "2 answerers, whole: rate"
    assert found.value > 0
    assert found.note == "8 of 8 cores needed"
    assert said[0] == "2 rows of workers as a whole: needs 11 cores, and this machine has 8"
