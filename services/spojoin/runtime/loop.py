"""The loop that runs any machine over the ports; one step at a time, so that tests turn it by hand.

L1  A transactional writer of which there may be one alone is registered when the machine takes over (L8): it fences
    the one before and ends its transactions, so that everything read from then on is final.
L2  The result position at the start is read from the tail of the results topic, never from the store.
L3  Inputs are read from their earliest retained records; where they end now is what "caught up" means.
L4  Results count towards the result position when they are readable, not when they are appended.
L5  After a retryable failure, machine, readers and writer are thrown away; a new loop recovers as after a crash.
L6  A record that can't be decoded ends the service: skipping it would lose results.
L7  A machine may have a topic read again; until that is done the service is not ready. A machine that others wait for
    continues for a while when it is asked to end.
L8  Of a service's instances one speaks: when it takes over, it registers its writers, and then learns how far results
    are out. A service that starts has read the log by then, so whoever spoke before speaks meanwhile.
L9  A life is bound to its topics. Where one was deleted, or made anew, the life ends, and the next one says again all
    that results need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from spojoin.errors import ConfigurationError, WireError
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogRecord, LogUnavailable
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.losses import WAY_OUT
from spojoin.protocol.machine import Action, Emit, InputMachine, Leaver, Machine, ResultPosition, Rewind, TakeOver, Trim
from spojoin.protocol.packing import records_read
from spojoin.protocol.topology import Edge, Role, Topic
from spojoin.runtime.departures import Departures
from spojoin.runtime.inputs import InputFeed, Parse
from spojoin.runtime.intake import Intake
from spojoin.runtime.memory import give_back
from spojoin.runtime.outbox import POLL_S, OutputSoFar, RowForm, WriteMode
from spojoin.runtime.result_position import ResultPositionFollower, ResultsEnd, position_of_results
from spojoin.runtime.table_feed import TableFeed, TableReading
from spojoin.runtime.topics import Topics
from spojoin.telemetry.health import Health
from spojoin.telemetry.metrics import Metrics, value_of
from spojoin.telemetry.reporter import Reporter
from spojoin.wire.codec import decode
from spojoin.wire.records import Barrier, Frame, Record

#: one step delivers for this long at most before time, result position and writer have their turn
STEP_MS_MAX = 10.0
#: how often new partitions of internal topics are looked for: more workers have more
DISCOVERY_MS = 5_000
#: the result position is put into the store at most this often; each time is a request that the loop waits for
PUBLISH_MS = 10
#: trims are gathered for this long; each is a request to the broker
TRIM_MS = 1_000
TAIL_TIMEOUT_S = 30.0
#: what is kept of a service's beats: some seconds
BEATS_KEPT = 200
STOP_TIMEOUT_S = 10.0

MachineFactory = Callable[[ResultPosition], Machine]


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """What to run: a machine that has these roles; `edge` is what it reads and writes in the log.

    `transactional_ids` are those of the topics that are written in transactions. `tick_ms` is the time between
    `on_time` calls while nothing else happens. `parse` is given where the machine takes the users' inputs, `table`
    where the query joins with a table, too.
    `presence` is the partition of its service's beats, where there are several instances. `takes_over`: the machine
    says when it speaks; else it does from the start.
    `result_position_ms` is how often the store is asked. `credits_frames` is how far a router may be ahead of the
    results. `drain_ms` is how long a machine that others wait for continues when it is asked to end. `fingerprint` is
    that of the query's meaning; 0 compares none.
    """

    roles: tuple[Role, ...]
    edge: Edge
    topics: Topics
    machine_factory: MachineFactory
    transactional_ids: Mapping[Topic, str] = field(default_factory=dict)
    is_json: bool = False
    row_form: RowForm | None = None
    result_key: str | None = None
    tick_ms: float = 20.0
    result_position_ms: float = 50.0
    credits_frames: int = 0
    drain_ms: int = 0
    parse: Parse | None = None
    table: Callable[[], TableReading] | None = None
    fingerprint: int = 0
    presence: int | None = None
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The ports that a loop runs over, and what observes it."""

    log: Log[bytes]
    shared: SharedState
    clock: Clock
    metrics: Metrics
    health: Health
    reporter: Reporter


def check_query(topic: str, offset: int, record: Record, fingerprint: int) -> None:
    """P12: a log that was written for a query of another meaning is not read. A log without fingerprints is older.

    `fingerprint` 0 compares none. Raises ConfigurationError.
    """
    if not fingerprint or not isinstance(record, Frame | Barrier):
        return
    if record.fingerprint not in (0, fingerprint):
        raise ConfigurationError(
            f"{topic} offset {offset}: the log was written for a query that means something else (fingerprint "
            f"{record.fingerprint:x}, this query's is {fingerprint:x}): serve the query that wrote it, or delete the "
            "query's internal topics"
        )


class Loop:
    """One life of a machine: from an empty state at a result position until it is closed or something raises."""

    def __init__(self, spec: LoopSpec, world: Surroundings) -> None:
        self._spec = spec
        self._world = world
        self._clock = world.clock
        self._departures = self._open_departures()  # L1
        self._intake = Intake(world.log.reader(), world.clock)
        self._topics: dict[str, Topic] = {}
        self._targets: dict[LogPartition, int] = {}
        self._trims: dict[LogPartition, int] = {}
        self._is_caught_up = False
        self._is_idle = True
        self._written = 0
        self._ids: dict[str, str] = {}
        self._beats_trimmed = 0
        self._fresh: ResultPosition | None = None
        self._unpublished: ResultPosition | None = None
        self._next_tick_ms = self._next_trim_ms = self._next_publish_ms = 0.0
        self._next_discovery_ms = self._clock.monotonic_ms() + DISCOVERY_MS
        self._feed: InputFeed | None = None
        self._table: TableFeed | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def step(self, wait_s: float | None = None) -> None:
        """Read, deliver, pass on the time and the result position, settle what was emitted.

        `wait_s` bounds the wait for records; by default until the next tick, and not at all while records wait.
        """
        self._receive(self._wait_s() if wait_s is None else wait_s)
        began_ms = self._clock.monotonic_ms()
        self._is_idle = self._deliver(began_ms + STEP_MS_MAX)
        self._tick()
        self._settle(is_idle=self._is_idle)
        self._follow_results()
        self._check_caught_up()
        self._maintain()
        self._world.metrics.step.observe((self._clock.monotonic_ms() - began_ms) / 1000)
        self._world.health.tick()

    def drain(self, time_ms_max: int) -> None:
        """L7: continue while others wait for this machine, at most for this long."""
        deadline_ms = self._clock.monotonic_ms() + time_ms_max
        while self.is_needed and self._clock.monotonic_ms() < deadline_ms:
            self.step()

    @property
    def is_needed(self) -> bool:
        """Whether other services wait for this machine by name."""
        return isinstance(self._machine, Leaver) and self._machine.is_needed()

    def finish(self) -> None:
        """Settle everything that was emitted: the end of an orderly stop."""
        result_position = self._departures.settle(STOP_TIMEOUT_S)
        if result_position is not None:
            self._world.shared.put_result_position(result_position)

    def close(self) -> None:
        """Close readers and writer; unsettled records may be lost, and are emitted again in the next life."""
        self._departures.close()
        self._intake.reader.close()
        for feed in (self._feed, self._table):
            if feed is not None:
                feed.close()

    # -- start

    def _start(self) -> None:
        spec, world = self._spec, self._world
        world.health.is_ready, world.health.waits_for = False, "reading what is in the log"
        world.metrics.replay_began(world.clock.monotonic_ms())
        results = LogPartition(spec.topics.name(Topic.RESULTS), 0)
        self._tail = ResultsEnd(world.log, self._intake.reader, results, spec.topics.generation)
        self._tail.find(TAIL_TIMEOUT_S, world.clock)  # L2
        self._check_generation()
        self._ids = world.log.topic_ids(self._names())
        world.shared.log_id = world.log.topic_id(spec.topics.name(Topic.FRAMES))
        self._follower = ResultPositionFollower(self._tail, world.shared, world.clock, spec.result_position_ms)
        self._departures.go_on_after(OutputSoFar(self._tail.furthest, self._tail.matches))
        self._machine = spec.machine_factory(position_of_results(self._tail.furthest))
        world.reporter.begin_life(self._machine)
        self._feed, self._table = self._make_feed(), self._make_table()
        self._open_inputs()
        self._targets = {source: world.log.end(source) for source in self._intake.waiting}

    def _check_generation(self) -> None:
        """Another generation's results may be news; if they stay so, the topic of generations is lost."""
        if (newest := self._tail.newest_generation) > self._spec.topics.generation:
            raise LogUnavailable(
                f"results are of generation {newest}, and topic {self._spec.topics.name(Topic.GENERATIONS)} knows "
                f"{self._spec.topics.generation} at most: if that stays so, it has lost records: {WAY_OUT}"
            )

    def _names(self) -> list[str]:
        """The topics that this life is bound to (L9)."""
        topics, edge = self._spec.topics, self._spec.edge
        own = {topics.name(topic) for topic in (*edge.reads, *edge.writes) if topic not in (Topic.INPUT, Topic.DEAD)}
        return sorted(own.union(topics.inputs if Topic.INPUT in edge.reads else ()))

    def _check_topics(self) -> None:
        """L9."""
        found = self._world.log.topic_ids(self._names())
        if changed := [topic for topic, known in self._ids.items() if found.get(topic) != known]:
            raise LogUnavailable(f"deleted, and made anew: {', '.join(changed)}; what results need of it is said again")
        self._ids = found

    def _open_departures(self) -> Departures:
        spec, world = self._spec, self._world
        mode = WriteMode(is_json=spec.is_json, row_form=spec.row_form, result_key=spec.result_key)
        place = spec.topics, world.metrics, world.clock
        departures = Departures(world.log, spec.edge, spec.transactional_ids, place, mode)
        if not spec.takes_over:
            departures.open()
        return departures

    def _make_feed(self) -> InputFeed | None:
        spec, world = self._spec, self._world
        if spec.parse is None:
            return None
        machine = cast("InputMachine", self._machine)
        feed = InputFeed(world.log, machine, spec.topics.flowing, spec.parse, world.clock, world.metrics.read)
        feed.on_taken = world.reporter.hops.took_rows
        return feed

    def _make_table(self) -> TableFeed | None:
        spec, world = self._spec, self._world
        if spec.table is None:
            return None
        machine = cast("InputMachine", self._machine)
        return TableFeed(world.log, machine, spec.topics.table, spec.table(), world.clock)

    def _open_inputs(self) -> None:
        """L3. Called again, it opens added partitions."""
        for topic in records_read(self._spec.edge):
            name = self._spec.topics.name(topic)
            self._topics[name] = topic
            for partition in range(self._world.log.partitions(name)):
                if (source := LogPartition(name, partition)) not in self._intake.waiting:
                    self._intake.open(source, self._world.log.bounds(source).earliest)
        if self._spec.presence is not None:
            self._open_presence(self._spec.presence)

    def _open_presence(self, partition: int) -> None:
        """The last beats alone: the speaker's are among them, or there is none."""
        source = LogPartition(self._spec.topics.name(Topic.PRESENCE), partition)
        self._topics[source.topic] = Topic.PRESENCE
        if source not in self._intake.waiting:
            bounds = self._world.log.bounds(source)
            self._intake.open(source, max(bounds.earliest, bounds.end - BEATS_KEPT))

    # -- a step

    def _wait_s(self) -> float:
        if not self._is_idle:
            return 0.0
        wait_s = max(0.0, self._next_tick_ms - self._clock.monotonic_ms()) / 1000
        is_short = self._departures.is_settling() or self._is_lingering() or self._has_frames_to_come()
        return min(wait_s, POLL_S) if is_short else wait_s

    def _is_lingering(self) -> bool:
        return isinstance(self._machine, InputMachine) and self._machine.is_lingering

    def _has_frames_to_come(self) -> bool:
        """Whether the log is about to bring what this process wrote, while it waits at the users' inputs."""
        return self._feed is not None and len(self._spec.roles) > 1 and self._written > self._follower.latest.frame_id

    def _receive(self, wait_s: float) -> None:
        """Wait where the next record is most likely: at the users' inputs once they are open."""
        if self._feed is not None:
            self._feed.refresh()
            if self._feed.intake.waiting:
                self._feed.intake.fill(wait_s)
                wait_s = 0.0
        self._tail.take(self._intake.fill(wait_s))

    def _deliver(self, deadline_ms: float) -> bool:
        """Give records in turn, one per input, until none is wanted (True) or time is up (False)."""
        while self._deliver_round():
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
        return True

    def _deliver_round(self) -> bool:
        is_any = False
        for source in list(self._intake.waiting):
            queue = self._intake.waiting[source]  # not looked up before: a rewind puts an empty one in its place
            topic = self._topics[source.topic]
            if queue.records and self._machine.wants(topic, source.partition):
                self._give(topic, queue.take())
                is_any = True
        if self._feed is not None:
            is_any |= self._feed.has_work()
            self._perform(self._feed.feed())
        if self._table is not None:
            self._perform(self._table.feed())
        return is_any

    def _give(self, topic: Topic, record: LogRecord[bytes]) -> None:
        source, offset = record.input, record.offset
        try:
            decoded = decode(record.value)
        except WireError as error:  # L6
            raise WireError(f"{source.topic}[{source.partition}] offset {offset}: {error}") from error
        check_query(source.topic, offset, decoded, self._spec.fingerprint)
        self._world.metrics.read.count(topic.value, len(record.value))
        self._world.reporter.saw(source.partition, offset, decoded, record.timestamp_ms)
        self._perform(self._machine.on_record(topic, source.partition, offset, decoded))

    def _perform(self, actions: Iterator[Action]) -> None:
        """Carry out a machine's actions, one at a time: a full log makes it wait."""
        for action in actions:
            if isinstance(action, Rewind):
                self._rewind(action.topic)
            elif isinstance(action, TakeOver):
                self._take_over()
            else:
                self._emit(action)

    def _emit(self, action: Emit) -> None:
        if isinstance(action.record, Frame):
            self._written = action.record.frame_id + 1
        self._departures.emit(action)
        self._world.reporter.emitted(action)
        self._settle(is_idle=False)
        while self._departures.is_full():
            self._clock.sleep(POLL_S)
            self._settle(is_idle=False)

    def _take_over(self) -> None:
        """L8: fence the instance that spoke before, then learn how far its results came."""
        self._departures.open()
        if Topic.RESULTS in self._spec.edge.writes:
            self._tail.begin()
            while self._tail.is_reading:
                self._tail.take(self._intake.fill(POLL_S, even_full=True))
            self._departures.go_on_after(OutputSoFar(self._tail.furthest, self._tail.matches))
            self._follower.move(position_of_results(self._tail.furthest))
        self._hear(self._follower.latest)

    def _rewind(self, topic: Topic) -> None:
        """L7: read a topic again from its earliest retained record."""
        name = self._spec.topics.name(topic)
        for source in list(self._intake.waiting):
            if source.topic == name:
                bounds = self._world.log.bounds(source)
                self._intake.open(source, bounds.earliest)
                self._targets[source] = bounds.end
        if self._world.health.is_ready:
            self._world.metrics.replay_began(self._clock.monotonic_ms())
        self._world.health.is_ready, self._world.health.waits_for = False, f"reading {name} again"

    def _tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_tick_ms or self._is_lingering():
            self._next_tick_ms = now_ms + self._spec.tick_ms
            self._perform(self._machine.on_time(int(now_ms)))

    def _settle(self, *, is_idle: bool) -> None:
        """L4. A machine may be in the middle of emitting: it hears of its result position afterwards."""
        result_position = self._departures.serve(is_idle=is_idle)
        if result_position is not None:
            self._world.reporter.hops.settled(result_position.frame_id)
        if result_position is not None and self._follower.move(result_position) is not None:
            self._fresh = self._unpublished = result_position
        self._publish_position()

    def _publish_position(self) -> None:
        """Services elsewhere ask the store much less often than results go out here."""
        now_ms = self._clock.monotonic_ms()
        if self._unpublished is not None and now_ms >= self._next_publish_ms:
            self._next_publish_ms = now_ms + PUBLISH_MS
            self._world.shared.put_result_position(self._unpublished)
            self._unpublished = None

    def _follow_results(self) -> None:
        fresh, self._fresh = self._follower.poll() or self._fresh, None
        if fresh is not None:
            self._hear(fresh)

    def _hear(self, result_position: ResultPosition) -> None:
        for trim in self._machine.on_result_position(result_position):
            self._note_trim(trim)

    def _note_trim(self, trim: Trim) -> None:
        self._trims[LogPartition(self._spec.topics.name(trim.topic), trim.partition)] = trim.offset
        self._world.reporter.trimmed(trim)

    def _check_caught_up(self) -> None:
        self._targets = {s: end for s, end in self._targets.items() if not self._intake.has_passed(s, end)}
        if self._targets:
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
        health = self._world.health
        missing = [topic for feed in (self._feed, self._table) if feed is not None for topic in feed.missing]
        if missing:
            health.waits_for = f"input topic {missing[0]}"
        elif not self._machine.is_silent and self._feed and not cast("InputMachine", self._machine).active:
            health.waits_for = "its claim to the log"
        else:
            health.is_ready = True
            self._world.metrics.replay_ended(self._clock.monotonic_ms())

    # -- what can wait

    def _maintain(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_trim_ms:
            self._next_trim_ms = now_ms + TRIM_MS
            self._trim()
        if now_ms >= self._next_discovery_ms:
            self._next_discovery_ms = now_ms + DISCOVERY_MS
            self._check_topics()
            self._open_inputs()
        if self._world.reporter.is_due():
            self._measure()
            self._world.reporter.measure(self._machine)
            waits_since_ms = None if self._feed is None else self._feed.waits_since_ms()
            is_silent = self._machine.is_silent
            self._world.reporter.note(waits_since_ms, self._departures.matches_out, is_silent=is_silent)
            self._world.reporter.publish(self._positions(), self._follower.latest)

    def _trim(self) -> None:
        if self._spec.presence is not None:
            beats = LogPartition(self._spec.topics.name(Topic.PRESENCE), self._spec.presence)
            if (needless := self._intake.reader.position(beats) - BEATS_KEPT) >= self._beats_trimmed + BEATS_KEPT:
                self._trims[beats] = self._beats_trimmed = needless
        trims, self._trims = self._trims, {}
        for source, before in trims.items():
            self._world.log.trim(source, before)

    def _measure(self) -> None:
        metrics = self._world.metrics
        waiting = 0
        for intake in self._intakes():
            for source, queue in intake.waiting.items():
                lag = intake.reader.lag(source) + len(queue.records) if self._is_read_on(source) else 0
                metrics.lag.labels(source.topic, source.partition).set(lag)
                waiting += len(queue.records)
        metrics.waiting.set(waiting)
        if Role.ROUTER in self._spec.roles:
            ahead = value_of(metrics.head_frame) - self._follower.latest.frame_id
            metrics.credits.set(max(0, self._spec.credits_frames - ahead))

    def _is_read_on(self, source: LogPartition) -> bool:
        """What a machine no longer wants of an internal topic is no lag."""
        topic = self._topics.get(source.topic, Topic.INPUT)
        return topic is not Topic.BATCHES or self._machine.wants(topic, source.partition)

    def _positions(self) -> dict[str, int]:
        return {
            f"{source.topic}/{source.partition}": intake.reader.position(source) - len(queue.records)
            for intake in self._intakes()
            for source, queue in intake.waiting.items()
        }

    def _intakes(self) -> list[Intake]:
        return [self._intake, *(feed.intake for feed in (self._feed, self._table) if feed is not None)]
