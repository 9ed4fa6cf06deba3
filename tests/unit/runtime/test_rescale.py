"""What the loop does for a changed worker count: rewind, report unreadiness, leave when no service waits."""

from __future__ import annotations

from spojoin.ports.shared_state import key
from spojoin.protocol.machine import Rewind
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.metrics import value_of
from tests.support.runtime_world import FRAMES, Bench, FakeMachine, barrier


def ready(bench):
    loop = bench.loop()
    for _ in range(3):
        loop.step(0)
    assert bench.health.ready()[0]
    return loop


def test_a_service_that_rewinds_is_not_ready_until_it_caught_up():
    bench = Bench()
    bench.prepare = lambda machine: setattr(
        machine, "answer", lambda r: [Rewind(Topic.FRAMES)] if r == barrier(2) and len(machine.records()) < 4 else []
    )
    bench.append(FRAMES, barrier(0), barrier(1))
    loop = ready(bench)
    bench.machines[0].unwanted.add(Topic.FRAMES)
    bench.append(FRAMES, barrier(2))
    loop.step(0)
    bench.machines[0].unwanted.clear()
    loop._deliver_round()
    bench.machines[0].unwanted.add(Topic.FRAMES)
    loop.step(0)
    assert bench.health.ready() == (False, "waiting: reading q.frames again")
    assert value_of(bench.metrics.caught_up) == 0
    bench.machines[0].unwanted.clear()
    for _ in range(3):
        loop.step(0)
    assert bench.health.ready()[0]
    assert value_of(bench.metrics.caught_up) == 1
    assert bench.machines[0].seen("caught up") == [()]


def test_catching_up_does_not_wait_for_later_records():
    """Under load a queue is never empty: only the earlier records must have been taken."""
    bench = Bench()
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    bench.append(FRAMES, barrier(1), barrier(2))
    (machine,) = bench.machines

    def stop_after_the_first(record: object) -> list:
        machine.unwanted.add(Topic.FRAMES)
        return []

    machine.answer = stop_after_the_first
    loop.step(0)
    assert machine.records() == [barrier(0)]
    assert machine.seen("caught up") == [()]


class Needed(FakeMachine):
    """A machine that others wait for until it has seen a number of ticks."""

    ticks = 5

    def is_needed(self) -> bool:
        return len(self.seen("time")) < self.ticks


class Ticking(Bench):
    """Time passes with every step."""

    def _machine(self, result_position):
        self.machines.append(Needed(result_position))
        return self.machines[-1]

    def loop(self):
        loop = super().loop()
        step = loop.step

        def slow(wait_s=None):
            self.clock.sleep(0.1)
            step(0)

        loop.step = slow
        return loop


def test_a_service_that_others_wait_for_leaves_once_they_no_longer_do():
    bench = Ticking(Role.POJOIN)
    loop = bench.loop()
    loop.drain(60_000)
    assert len(bench.machines[0].seen("time")) == Needed.ticks
    assert not loop.is_needed


def test_it_leaves_in_time_even_if_they_wait_forever():
    bench = Ticking(Role.POJOIN)
    loop = bench.loop()
    loop.drain(300)
    assert len(bench.machines[0].seen("time")) < Needed.ticks


def test_it_leaves_at_once_without_patience_or_if_nothing_waits_for_it():
    bench = Ticking(Role.POJOIN)
    bench.loop().drain(0)
    assert bench.machines[0].seen("time") == []
    other = Bench()
    other.loop().drain(60_000)
    assert other.machines[0].seen("time") == []


def test_the_store_lists_each_service_and_its_processor_time():
    bench = Bench()
    ready(bench)
    statuses = bench.shared.statuses()
    assert statuses.keys() == {"x-0"}
    assert float(statuses["x-0"]["cpu_s"]) > 0
    assert int(statuses["x-0"]["rss_bytes"]) > 1 << 20
    assert bench.shared.head() == {}
    bench.shared.put({key("q", "head"): {"workers": 3, "layout_frame": 5}})
    assert bench.shared.head() == {"workers": "3", "layout_frame": "5"}
