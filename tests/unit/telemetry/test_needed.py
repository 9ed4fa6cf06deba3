"""What processes say of the services that should run, for alerts on those that do not."""

from __future__ import annotations

import pytest

from spojoin.protocol.topology import Role
from tests.support.frames import log_of_frames
from tests.support.runtime_world import FRAMES, Bench


def needed(bench: Bench) -> dict[str, int]:
    (family,) = [each for each in bench.metrics.registry.collect() if each.name == "spojoin_needed_instances"]
    return {sample.labels["needed"]: int(sample.value) for sample in family.samples}


def after(bench: Bench, *, turns: int = 3) -> dict[str, int]:
    loop = bench.loop()
    for _ in range(turns):
        bench.clock.sleep(1)
        loop.step(0)
    return needed(bench)


def test_workers_are_those_of_the_log_once_it_has_been_read() -> None:
    bench = Bench(Role.SINK)
    bench.world.reporter.expect(("router", "sink"), 7, instances=2)
    bench.append(FRAMES, *log_of_frames())
    workers = log_of_frames()[-1].workers
    assert workers != 7
    names = [*(f"pojoin-{number}" for number in range(workers)), "router", "sink"]
    assert after(bench) == dict.fromkeys(sorted(names), 2)


def test_workers_inside_a_process_are_no_services() -> None:
    bench = Bench(Role.SINK)
    bench.world.reporter.expect(("router+pojoin", "sink"), 7, inside=1)
    bench.append(FRAMES, *log_of_frames())
    assert "pojoin-0" not in after(bench)


@pytest.mark.parametrize(("role", "said"), [(Role.ROUTER, {"pojoin-0", "pojoin-1"}), (Role.SINK, set())])
def test_before_any_frame_only_the_router_knows_how_many_workers_there_are(role, said) -> None:
    bench = Bench(role)
    bench.world.reporter.expect(("router", "sink"), 2)
    assert after(bench).keys() == {"router", "sink"} | said
