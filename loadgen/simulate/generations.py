"""Runs a seed that replaces the query while it is served (rule P12), and judges every generation's answers.

All faults of a world also happen here, before, during and after a takeover. Each generation has its own log. A process
serves one generation; some time after the next one takes over, it ends and restarts for it.

All queries read the same rows: a run's inputs are drawn for its first query, and the others use its columns.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from loadgen.simulate import probabilities as odds
from loadgen.simulate.broker import AppendsUnderWay, SimulatedLog, Target
from loadgen.simulate.drawn_query import DrawnQuery, as_interval_join, redraw_query
from loadgen.simulate.drawn_statement import asking, elaborate
from loadgen.simulate.feed import Source
from loadgen.simulate.followers import ResultsFollower, RunOutcome
from loadgen.simulate.generation_mutants import GENERATION_MUTANTS, REPLACED_ASKING_MUTANTS
from loadgen.simulate.process import WIRING, Post, Process
from loadgen.simulate.run import FAULTS_SHOWN, Failure, planted_in_run, shrunk
from loadgen.simulate.scenario import (
    Elaborate,
    Scenario,
    draw_sinks,
    draw_with_query,
    fits,
    for_router,
    parse,
    with_answerers,
    with_grids,
    with_loss,
    with_reader,
)
from loadgen.simulate.sink_mutants import CHANGED_SINKS_MUTANTS
from loadgen.simulate.succession import Era, judge_succession
from loadgen.simulate.verdict import Wrong
from loadgen.simulate.world import World
from spojoin.model import Order
from spojoin.ports.interfaces import Bounds, Log, LogPartition, LogRecord
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning, Generations
from spojoin.protocol.machine import START, InputMachine, Machine, ResultPosition
from spojoin.protocol.result_partitions import ResultPartition
from spojoin.protocol.topology import FIRST_GENERATION, SHARED, Role, Topic
from spojoin.query.fingerprint import is_same_order
from spojoin.roles.router.closing_router import ClosingRouter
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.runtime.backfill import InputHistory, Past, fill, seen_now
from spojoin.runtime.generations import beginning_after
from spojoin.wire.records import Announcement, Record, Result, Rows, Takeover

#: The number of an input's records that the backfill reads in a step: few, so that it takes many steps.
SHRUNK = {"spojoin.runtime.backfill.LOOK_RECORDS": (3, 5, 9)}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One seed's generations, in order.

    backfills: the way in which each later generation fills its windows
    requested_at: the steps, from the start, at which these are requested
    """

    scenarios: tuple[Scenario, ...]
    backfills: tuple[Backfill, ...]
    requested_at: tuple[int, ...]


def draw_replacement(seed: int, elaborate: Elaborate | None = None) -> Replacement:
    """A seed's two or three generations; `elaborate` is applied to each query."""
    first, drawn = draw_with_query(seed, elaborate)
    rng = Random(f"generations {seed}")
    count = rng.choice(odds.REPLACEMENTS)
    later = tuple(_redrawn(rng, first, drawn, elaborate) for _ in range(count))
    limits = first.limits | {name: rng.choice(sizes) for name, sizes in SHRUNK.items()}
    backfills = tuple(rng.choice(odds.BACKFILLS) for _ in later)
    scenarios = replace(first, limits=limits), *later
    asked = Random(f"asked {seed}")
    requested_at = tuple(sorted(asked.choice(odds.REPLACED_AT_STEPS) for _ in later))
    packed = [
        replace(each, sinks=1 if each.sinks == 1 else draw_sinks(f"{seed} generation {number}", ()))
        for number, each in enumerate(map(with_grids, scenarios))
    ]
    scenarios = tuple(with_answerers(with_loss(each)) for each in _with_workers_of_all(packed))
    return Replacement(scenarios, backfills, requested_at)


def _with_workers_of_all(scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """The scenarios with the most workers of any: generations share their workers."""
    most = {name: max(getattr(each.config, name) for each in scenarios) for name in ("workers", "workers_max")}
    return tuple(replace(each, config=replace(each.config, **most)) for each in scenarios)


def _redrawn(rng: Random, first: Scenario, drawn: DrawnQuery, elaborate: Elaborate | None) -> Scenario:
    """Another query over the same rows."""
    while True:
        other = _other(rng, drawn)
        if elaborate is not None:
            other = elaborate(rng, other)
        scenario = replace(first, query=other.query, join=other.join)
        if fits(scenario):
            return with_reader(scenario)


def _other(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """Another query over the same columns, sometimes an interval join."""
    other = redraw_query(rng, drawn)
    if other.query.order.by is Order.EVENT_TIME and rng.random() < odds.INTERVAL_JOIN:
        return as_interval_join(rng, other)
    return other


#: The number of messages that one poll returns: few, so that a reader has to poll again.
POLLED = 3


class InputsLog:
    """Topics are streams' numbers as text; the first `available` messages of each partition are written."""

    def __init__(self, scenario: Scenario, available: Mapping[Source, int]) -> None:
        self._scenario = scenario
        self._available = available

    def partitions(self, topic: str) -> int:
        """The number of a stream's partitions."""
        return sum(stream == int(topic) for stream, _ in self._scenario.inputs)

    def bounds(self, source: LogPartition) -> Bounds:
        """The bounds of a partition, which retains all messages."""
        return Bounds(0, self._available[int(source.topic), source.partition])

    def reader(self) -> InputsReader:
        """A reader with nothing open."""
        return InputsReader(self)

    def parse(self, stream: int, partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
        """Rows of consecutive messages, as the router gets them."""
        messages = self._scenario.inputs[stream, partition]
        return parse(self._scenario, (stream, partition), messages[records[0].offset : records[-1].offset + 1], 0)


class InputsReader:
    def __init__(self, log: InputsLog) -> None:
        self._log = log
        self._positions: dict[LogPartition, int] = {}

    def open(self, source: LogPartition, offset: int) -> None:
        """Read on from an offset."""
        self._positions[source] = offset

    def drop(self, source: LogPartition) -> None:
        """Stop reading an input."""
        del self._positions[source]

    def poll(self, records_max: int, timeout_s: float) -> list[LogRecord[bytes]]:
        """The next few messages of the open input."""
        ((source, at),) = self._positions.items()
        end = min(at + min(POLLED, records_max), self._log.bounds(source).end)
        self._positions[source] = end
        return [LogRecord(source, offset, offset, b"", ()) for offset in range(at, end)]

    def position(self, source: LogPartition) -> int:
        """The offset after the last returned message."""
        return self._positions[source]

    def at_end(self, source: LogPartition) -> bool:
        """Whether the input has no more messages."""
        return self._positions[source] >= self._log.bounds(source).end

    def close(self) -> None:
        pass


_PLANTED = {**GENERATION_MUTANTS, **REPLACED_ASKING_MUTANTS, **CHANGED_SINKS_MUTANTS}


def run_replacement(seed: int, mutant: str | None = None) -> Failure | None:
    """Returns None if one of the generations answered every row once and correctly."""
    with planted_in_run(_PLANTED[mutant] if mutant else None):
        return run_generations(draw_replacement(seed))


def run_replaced_statement(seed: int, mutant: str | None = None) -> Failure | None:
    """The same with statements: filters, residual conditions, texts, NULL and columns of results."""
    with planted_in_run(_PLANTED[mutant] if mutant else None):
        return run_generations(draw_replaced_statement(seed))


def draw_replaced_statement(seed: int) -> Replacement:
    """Generations of statements, whose rows ask only at arrival, since open rows would lose their answer."""
    return draw_replacement(seed, lambda rng, drawn: asking(rng, elaborate(rng, drawn), may_close=False))


def run_generations(replacement: Replacement) -> Failure | None:
    """Run and judge successive queries; returns None if nothing is wrong."""
    world = None
    with shrunk(replacement.scenarios[0]):
        try:
            world = GenerationsWorld(replacement)
            judge_succession(world.run_all())
        except Wrong as wrong:
            return _failure(replacement, world, str(wrong))
        except Exception:  # noqa: BLE001 - any error of a machine is a finding, reported with its traceback
            return _failure(replacement, world, traceback.format_exc())
    return None


def _failure(replacement: Replacement, world: GenerationsWorld | None, what: str) -> Failure:
    first = replacement.scenarios[0]
    faults = [] if world is None else world.faults[-FAULTS_SHOWN:]
    queries = [scenario.query.text for scenario in replacement.scenarios]
    account = "\n".join(
        [f"seed {first.seed}: {what.rstrip()}", *queries, str(replacement.backfills), str(first.config)]
    )
    reason = what.strip().splitlines()[-1 if what.startswith("Traceback") else 0]
    return Failure(first.seed, reason, "\n".join([account, str(first.faults), *faults]))


class GenerationsWorld(World):
    """A world of successive generations; its state is that of the current era."""

    def __init__(self, replacement: Replacement) -> None:
        self._replacement = replacement
        self._generations = Generations()
        self._eras: dict[int, Era] = {}
        self._era_of: dict[str, int] = {}
        self._successor_of: dict[str, int | None] = {}
        self._ghost_era: dict[int, int] = {}
        self._seen: dict[int, list[Past]] = {}
        self._requested = FIRST_GENERATION
        self._generations.accept_record(self._announcement(FIRST_GENERATION))
        super().__init__(replacement.scenarios[0], WIRING)
        self._request_at = list(replacement.requested_at)

    def run_all(self) -> list[tuple[Era, RunOutcome]]:
        """Every era that took over, with its outcome."""
        came_to_rest = self._weather()
        found = []
        for number in sorted(self._eras):
            self._enter(number)
            found.append((self._eras[number], self._outcome(came_to_rest)))
        if self._generations.current_number != len(self._replacement.scenarios):
            raise Wrong(
                f"generation {self._generations.current_number} is served at rest, though a later one was requested"
            )
        return found

    # -- eras

    def _announcement(self, number: int) -> Announcement:
        backfill = Backfill.WINDOW if number == FIRST_GENERATION else self._replacement.backfills[number - 2]
        return Announcement(number, number, "", backfill.value)

    @property
    def _current(self) -> int:
        return self._generations.current_number

    @property
    def _successor(self) -> int | None:
        return None if self._generations.successor is None else self._current + 1

    def _create_topics(self) -> None:
        super()._create_topics()
        era = Era(FIRST_GENERATION, self.scenario, self.log, Beginning(FIRST_GENERATION, FIRST_GENERATION))
        era.frames, era.results = self.frames, self.results
        self._eras[FIRST_GENERATION] = era

    def _enter(self, number: int) -> None:
        era = self._eras[number]
        self.scenario, self.log = era.scenario, era.log
        self.frames, self.results, self._result_positions = era.frames, era.results, era.result_positions

    def _take_over(self, takeover: Takeover) -> None:
        before = self._eras[takeover.from_generation]
        scenario = self._replacement.scenarios[takeover.generation - 1]
        streams = {number: number for number in range(len(scenario.query.inputs))}
        fresh = Beginning(takeover.generation, takeover.generation)
        begun = beginning_after(fresh, takeover, before.scenario.query, scenario.query, streams)
        self._eras[takeover.generation] = Era(takeover.generation, scenario, SimulatedLog(self._landed), begun)
        self._eras[takeover.generation].results = ResultsFollower(
            scenario.result_partitions, scenario.query.results.key
        )
        self._eras[takeover.generation].backfill = self._replacement.backfills[takeover.generation - 2]
        self._enter(takeover.generation)
        super()._create_topics()
        for topic in SHARED:
            self._share(topic, before.log)
        if self._request_at and self.rng.random() < odds.REPLACED_WHILE_FILLING:  # while it fills its windows
            self._request_at[0] = self.step + self.rng.choice(odds.REPLACED_WHILE_FILLING_STEPS)
        self._note(f"generation {takeover.generation} takes over at {takeover.source}")
        for post in self._posts():
            self._replace_at(self.step + (self.rng.choice(odds.TAKEOVER_START_STEPS) if self._is_storm else 0), post)

    def _share(self, topic: Topic, before: SimulatedLog) -> None:
        for target, partition in before.partitions.items():
            if target[0] is topic:
                self.log.partitions[target] = partition

    # -- the served query

    def _start(self, post: Post) -> Process:
        self._enter(self._current)
        process = super()._start(post)
        self._era_of[process.name] = self._current
        self._successor_of[process.name] = self._successor
        return process

    def _router(self, name: str, result_position: ResultPosition) -> InputMachine:
        config, query = for_router(self.scenario, name, self._names, self._workers), self.scenario.query
        beginning = self._beginning(name, result_position)
        if self._successor is None:
            return RouterMachine(query, result_position, config, lambda _: None, beginning)
        return self._closing(result_position, config, beginning, self._successor)

    def _closing(
        self, result_position: ResultPosition, config: RouterConfig, beginning: Beginning, successor: int
    ) -> InputMachine:
        query = self.scenario.query
        keeps_order = is_same_order(query, self._replacement.scenarios[successor - 1].query)
        return ClosingRouter(query, result_position, config, lambda _: None, beginning, keeps_order=keeps_order)

    def _beginning(self, router: str, result_position: ResultPosition) -> Beginning:
        era = self._eras[self._current]
        if self._current == FIRST_GENERATION or result_position > START:
            return era.begun
        backfill, seen = self._announcement(self._current).backfill, self._seen.pop(self._current, ())
        begun = fill(self._history(self.scenario), self.scenario.query, era.begun, backfill, seen)
        era.filled[router] = begun
        return begun

    def _history(self, scenario: Scenario) -> InputHistory:
        inputs = InputsLog(scenario, self._feed.available)
        topics = [str(number) for number in range(len(scenario.query.inputs))]
        return InputHistory(cast("Log[bytes]", inputs), topics, inputs.parse)

    def _see(self, number: int) -> None:
        """A router's view while the previous generation answers."""
        scenario = self._replacement.scenarios[number - 1]
        self._seen[number] = seen_now(self._history(scenario), scenario.query)

    def _sink(self, result_position: ResultPosition, share: ResultPartition) -> Machine:
        return SinkMachine(self.scenario.query, result_position, self._current, share=share)

    def _is_wanted(self, post: Post) -> bool:
        served = self._replacement.scenarios[self._current - 1]
        joiners = len(served.query.predicates) * served.mutable_rows
        counts = {Role.INTAKE: served.intakes, Role.MUTABLE: joiners, Role.SINK: served.sinks}
        is_there = bool(post.group) or post.number < counts.get(post.role, post.number + 1)
        return super()._is_wanted(post) and is_there

    # -- steps

    def _storm_step(self) -> None:
        if self._request_at and self._request_at[0] <= self.step:
            self._request_at.pop(0)
            self._request_next()
        super()._storm_step()

    def _request_next(self) -> None:
        self._requested += 1
        self._note(f"generation {self._requested} is requested")
        self.log.append((Topic.GENERATIONS, 0), self._announcement(self._requested))

    def _heal(self) -> None:
        for _ in self._request_at:
            self._request_next()
        self._request_at = []
        super()._heal()

    def _landed(self, target: Target, record: Record) -> Record:
        record = super()._landed(target, record)
        if isinstance(record, Result) and self.log is not self._eras[record.generation].log:
            raise Wrong(f"a result of generation {record.generation} comes from another's sink")
        if isinstance(record, Announcement):
            if self._generations.accept_record(record):
                self._see(record.generation)
        elif isinstance(record, Takeover) and self._generations.accept_record(record):
            self._take_over(record)
        return record

    def _retained(self, topic: Topic) -> int:
        """As in a world of one generation; blocks that an ended one left go with their topic."""
        is_over = topic is Topic.BLOCKS and self.log is not self._eras[self._current].log
        return 0 if is_over else super()._retained(topic)

    def _repack(self) -> None:
        self._enter(self._current)
        super()._repack()

    def _make_trouble(self) -> None:
        self._enter(self._current)
        super()._make_trouble()

    def _advance(self, process: Process, action: Callable[[Process], bool]) -> bool:
        if self._is_over(process) and (not self._is_storm or self.rng.random() < odds.NOTICES):
            return self._end(process, "its generation is over")
        self._enter(self._era_of[process.name])
        return super()._advance(process, action)

    def _pass_quietly(self) -> None:
        self._feed.end_again()

    def _round(self) -> None:
        self._revive()
        super()._round()

    def _is_over(self, process: Process) -> bool:
        if self._era_of[process.name] != self._current:
            return True
        return Role.ROUTER in process.post.roles and self._successor_of[process.name] != self._successor

    def _bury(self, process: Process) -> None:
        super()._bury(process)
        if process.outbox:
            self._ghost_era[id(process.outbox)] = self._era_of[process.name]

    def _land(self, ghost: AppendsUnderWay) -> None:
        self._enter(self._ghost_era[id(ghost)])
        super()._land(ghost)

    def _outcome(self, came_to_rest: bool) -> RunOutcome:
        here = [process for process in self.processes if self._eras[self._era_of[process.name]].log is self.log]
        names = {name for process in here for name, _ in process.machines()}
        outcome = super()._outcome(came_to_rest)
        return replace(outcome, state_tuples={name: outcome.state_tuples[name] for name in names})
