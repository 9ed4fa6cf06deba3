"""The loop that runs any machine over the ports, one step at a time, so that tests can call each step.

L1  A transactional writer that may exist only once is registered when the machine takes over (L8): it fences its
    predecessor and ends its transactions, so that everything read from then on is final.
L2  The result position at the start is read from the tail of the results topic, never from the store.
L3  Inputs are read from their earliest retained records; the loop has caught up when it reaches their present ends.
L4  Results count towards the result position when they are readable, not when they are appended.
L5  After a retryable failure, machine, readers and writer are thrown away; a new loop recovers as after a crash.
L6  A record that can't be decoded ends the service: skipping it would lose results.
L7  A machine may request that a topic be read again; until that is done the service is not ready. A machine that other
    services wait for continues for a while when the service should end.
L8  One instance of a service speaks. When it takes over, it registers its writers, and then learns how far results are
    out. By then a starting service has read the log; meanwhile the previous speaker continues.
L9  A life is bound to its topics. If one was deleted or created anew, the life ends, and the next one writes everything
    again that results need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from spojoin.protocol.machine import Action, InputMachine, Leaver, ResultPosition, Rewind, TakeOver
from spojoin.protocol.topology import Topic
from spojoin.runtime.departures import Departures
from spojoin.runtime.inflow import Inflow
from spojoin.runtime.loop_spec import LoopSpec, Surroundings
from spojoin.runtime.outbox import POLL_S
from spojoin.runtime.process import give_back

#: how long one step delivers at most before it handles time, result position and writer
STEP_MS_MAX = 10.0
#: how often to look for new partitions of internal topics, which more workers bring
DISCOVERY_MS = 5_000
#: trims are gathered for this long, since each is a request to the broker
TRIM_MS = 1_000


class Loop:
    """One life of a machine: from an empty state at a result position until it is closed or something raises."""

    def __init__(self, spec: LoopSpec, world: Surroundings) -> None:
        self._spec = spec
        self._world = world
        self._clock = world.clock
        self._departures = Departures(spec, world)  # L1
        self._inflow = Inflow(spec, world)
        self._is_caught_up = False
        self._is_idle = True
        self._next_tick_ms = self._next_trim_ms = 0.0
        self._next_discovery_ms = self._clock.monotonic_ms() + DISCOVERY_MS
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        spec, world, results = self._spec, self._world, self._inflow.results
        world.health.is_ready, world.health.waits_for = False, "reading what is in the log"
        world.metrics.replay_began(world.clock.monotonic_ms())
        self._inflow.bind()  # L2, L9
        world.shared.log_id = world.log.topic_id(spec.topics.name(Topic.FRAMES))
        self._departures.begin(results)
        self._machine = spec.machine_factory(self._departures.result_position)
        world.reporter.begin_life(self._machine)
        self._inflow.open(self._machine)  # L3

    def step(self, wait_s: float | None = None) -> None:
        """Read and deliver records, pass on the time and the result position, and settle emits.

        wait_s: how long to wait for records at most; by default until the next tick, and not at all while records wait
        """
        self._inflow.receive(self._wait_s() if wait_s is None else wait_s)
        began_ms = self._clock.monotonic_ms()
        self._is_idle = self._deliver(began_ms + STEP_MS_MAX)
        self._tick()
        self._departures.settle(is_idle=self._is_idle)
        if (moved := self._departures.poll_position()) is not None:
            self._hear(moved)
        self._check_caught_up()
        self._maintain()
        self._world.metrics.step.observe((self._clock.monotonic_ms() - began_ms) / 1000)
        self._world.health.tick()

    def drain(self, time_ms_max: int) -> None:
        """L7: continue while other services wait for this machine, at most for `time_ms_max`."""
        deadline_ms = self._clock.monotonic_ms() + time_ms_max
        while self.is_needed and self._clock.monotonic_ms() < deadline_ms:
            self.step()

    @property
    def is_needed(self) -> bool:
        """Whether other services wait for this machine by name."""
        return isinstance(self._machine, Leaver) and self._machine.is_needed()

    def finish(self) -> None:
        """Settle all emits, as the last step of an orderly stop."""
        self._departures.finish()

    def close(self) -> None:
        """Close readers and writers; unsettled records may be lost, and the next life emits them again."""
        self._departures.close()
        self._inflow.close()

    def _wait_s(self) -> float:
        if not self._is_idle:
            return 0.0
        wait_s = max(0.0, self._next_tick_ms - self._clock.monotonic_ms()) / 1000
        return min(wait_s, POLL_S) if self._departures.has_more_to_come() or self._is_lingering() else wait_s

    def _is_lingering(self) -> bool:
        return isinstance(self._machine, InputMachine) and self._machine.is_lingering

    def _deliver(self, deadline_ms: float) -> bool:
        """Deliver records in turn, one per input, until none is wanted (True) or time is up (False)."""
        while self._deliver_round():
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
        return True

    def _deliver_round(self) -> bool:
        is_any = False
        for taken in self._inflow.take_records(self._machine):
            self._perform(self._machine.on_record(*taken))
            is_any = True
        if (feed := self._inflow.feed) is not None:
            is_any |= feed.has_work()
            self._perform(feed.give_rows())
        if (table := self._inflow.table) is not None:
            self._perform(table.give_version())
        return is_any

    def _perform(self, actions: Iterator[Action]) -> None:
        """Perform a machine's actions one at a time, and let it wait while the log is full."""
        for action in actions:
            if isinstance(action, Rewind):
                self._rewind(action.topic)
            elif isinstance(action, TakeOver):
                self._take_over()
            else:
                self._departures.emit(action)

    def _take_over(self) -> None:
        """L8: fence the previous speaker, then learn how far its results are out."""
        self._departures.fence()
        if Topic.RESULTS in self._spec.edge.writes:
            self._inflow.read_results()
            self._departures.go_on_after(self._inflow.results)
        self._hear(self._departures.result_position)

    def _rewind(self, topic: Topic) -> None:
        """L7."""
        self._inflow.rewind(topic)
        if self._world.health.is_ready:
            self._world.metrics.replay_began(self._clock.monotonic_ms())
        name = self._spec.topics.name(topic)
        self._world.health.is_ready, self._world.health.waits_for = False, f"reading {name} again"

    def _tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_tick_ms or self._is_lingering():
            self._next_tick_ms = now_ms + self._spec.tick_ms
            self._perform(self._machine.on_time(int(now_ms)))

    def _hear(self, result_position: ResultPosition) -> None:
        self._departures.note_trims(self._machine.on_result_position(result_position))

    def _check_caught_up(self) -> None:
        if not self._inflow.have_caught_up():
            return
        if not self._is_caught_up:
            self._is_caught_up = True
            give_back()
            self._perform(self._machine.on_caught_up())
            if not self._spec.takes_over:
                self._perform(self._machine.on_chosen())
        elif not self._world.health.is_ready:
            self._check_ready()

    def _check_ready(self) -> None:
        """A machine with inputs is ready when all of them exist and the log is its own."""
        health, machine = self._world.health, self._machine
        if missing := self._inflow.missing:
            health.waits_for = f"input topic {missing[0]}"
        elif not machine.is_silent and self._inflow.feed and not cast("InputMachine", machine).active:
            health.waits_for = "its claim to the log"
        else:
            health.is_ready = True
            self._world.metrics.replay_ended(self._clock.monotonic_ms())

    def _maintain(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_trim_ms:
            self._next_trim_ms = now_ms + TRIM_MS
            self._departures.trim(self._inflow.needless_beats())
        if now_ms >= self._next_discovery_ms:
            self._next_discovery_ms = now_ms + DISCOVERY_MS
            self._inflow.check_topics()  # L9
            self._inflow.open_partitions()
        if self._world.reporter.is_due():
            self._report()

    def _report(self) -> None:
        reporter, departures, feed = self._world.reporter, self._departures, self._inflow.feed
        self._inflow.measure(self._machine)
        departures.measure()
        reporter.measure(self._machine)
        waits_since_ms = None if feed is None else feed.waits_since_ms()
        reporter.note(waits_since_ms, departures.matches_out, is_silent=self._machine.is_silent)
        reporter.publish(self._inflow.positions(), departures.result_position)
