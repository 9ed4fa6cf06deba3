"""Whole releases, on a machine with a core for each of their processes: the rate that section `scale` infers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from loadgen.bench.measurement import Measurement
from loadgen.promises.data import columns
from loadgen.promises.recording import Release
from loadgen.promises.services import WORKLOAD, ahead, check, throughput
from loadgen.promises.serving import PreparedQuery, Way, arrow_messages, fill, measured, planned, prepared
from loadgen.promises.sizes import Context
from spojoin.local.cluster import LocalCluster
from spojoin.local.services import services_of

#: Cores beside those of the services: for the broker, and for Redis and the reader of results.
CORES_BESIDE = 2


def whole_rates(
    context: Context, cluster: LocalCluster, releases: Iterable[Release], cores: int | None = None
) -> Iterator[Measurement]:
    """The rate of each release for whose processes `cores` are enough; by default those of this machine."""
    cores = cores or len(os.sched_getaffinity(0))
    sizes, folder = context.sizes, context.scratch
    for release in releases:
        name = f"whole-{release}"
        way = Way(release.packing, workers=release.grid.workers, division=release.settings)
        deployment = planned(name, sizes, folder, way=way).deployment(cluster.servers)
        needed = len(services_of(deployment)) + CORES_BESIDE
        if needed > cores:
            context.say(f"{release.named} as a whole: needs {needed} cores, and this machine has {cores}")
            continue
        with prepared(cluster, name, sizes, folder, way=way) as ready:
            note = f"{needed} of {cores} cores needed"
            yield Measurement(f"{release.named}, whole: rate", _rate(context, ready), "tuples/s", note=note)


def _rate(context: Context, ready: PreparedQuery) -> float:
    """Tuples per second with a full window; more are measured the more workers there are."""
    window = context.sizes.window
    end = window + ready.way.workers * context.sizes.services_after
    data = columns(WORKLOAD, end + ahead(context.sizes))
    fill(ready.log, ready.input, arrow_messages(data))
    with measured(ready) as running:
        context.say(f"{ready.plan.query.name}: services started; filling the window, then measuring")
        found = throughput(running, window, end)
        check(context, data, running)
    return found.tuples_per_second
