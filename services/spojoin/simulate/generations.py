"""Runs a seed in which the query is replaced while it is served (rule P12), and judges every generation's answers.

All faults of a world happen here as well, before, during and after a takeover. Each generation has its own log. A
process serves one generation; some time after another one takes over, it ends and restarts for that one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from typing import cast

from spojoin.ports.interfaces import Log
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning, Generations
from spojoin.protocol.machine import START, InputMachine, Machine, ResultPosition
from spojoin.protocol.topology import FIRST_GENERATION, SHARED, Role, Topic
from spojoin.query.meaning import is_same_order
from spojoin.roles.router.closing import ClosingRouter
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.runtime.backfill import InputHistory, Past, fill, seen_now
from spojoin.runtime.generations import beginning_after
from spojoin.simulate import probabilities as odds
from spojoin.simulate.broker import AppendsUnderWay
from spojoin.simulate.drawn_asking import asking
from spojoin.simulate.drawn_statement import elaborate
from spojoin.simulate.editions import edition_of
from spojoin.simulate.era import Era
from spojoin.simulate.generation_mutants import GENERATION_MUTANTS, REPLACED_ASKING_MUTANTS
from spojoin.simulate.inputs import InputsLog
from spojoin.simulate.machines import WIRING
from spojoin.simulate.memorylog import SimulatedLog, Target
from spojoin.simulate.outcome import RunOutcome
from spojoin.simulate.process import Post, Process
from spojoin.simulate.replacement import Replacement, draw_replacement
from spojoin.simulate.run import FAULTS_SHOWN, Failure, shrunk
from spojoin.simulate.scenario import Elaborate, Scenario, for_router
from spojoin.simulate.succession import judge_succession
from spojoin.simulate.verdict import Wrong
from spojoin.simulate.world import World
from spojoin.wire.records import Announcement, Record, Result, Takeover

_PLANTED = {**GENERATION_MUTANTS, **REPLACED_ASKING_MUTANTS}


def run_replacement(seed: int, mutant: str | None = None) -> Failure | None:
    """None where every row was answered once, and correctly, by one of the generations."""
    return _run(draw_replacement(seed), mutant)


def run_replaced_statement(seed: int, mutant: str | None = None) -> Failure | None:
    """The same with statements: filters, residual conditions, texts, NULL and columns of results."""
    return _run(draw_replacement(seed, _elaborated(seed)), mutant)


def _elaborated(seed: int) -> Elaborate:
    """What is made of each generation's query; left rows may ask, at arrival: open ones would lose their answer."""
    if not edition_of(seed).asks_replaced:
        return elaborate
    fully = edition_of(seed).asks_fully
    return lambda rng, drawn: asking(rng, elaborate(rng, drawn), may_close=False, may_be_full=fully)


def _run(replacement: Replacement, mutant: str | None) -> Failure | None:
    world = None
    with ExitStack() as planted:
        for bug in _PLANTED[mutant].plant() if mutant else ():
            planted.enter_context(bug)
        planted.enter_context(shrunk(replacement.scenarios[0]))
        try:
            world = GenerationsWorld(replacement)
            judge_succession(world.run_all())
        except Wrong as wrong:
            return _failure(replacement, world, str(wrong))
        except Exception:  # noqa: BLE001 - whatever a machine raises is a finding, reported with its traceback
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
    """A world of successive generations; its state is that of the era that it has entered."""

    def __init__(self, replacement: Replacement) -> None:
        self._replacement = replacement
        self._generations = Generations()
        self._eras: dict[int, Era] = {}
        self._era_of: dict[str, int] = {}
        self._successor_of: dict[str, int | None] = {}
        self._ghost_era: dict[int, int] = {}
        self._seen: dict[int, list[Past]] = {}
        self._requested = FIRST_GENERATION
        self._generations.hear(self._announcement(FIRST_GENERATION))
        super().__init__(replacement.scenarios[0], WIRING)
        # The text of a seed stays for ever: it decides what each seed draws.
        drawn = Random(f"asked {replacement.scenarios[0].seed}")
        steps = edition_of(replacement.scenarios[0].seed).replaced_at_steps
        self._request_at = sorted(drawn.choice(steps) for _ in replacement.scenarios[1:])

    def run_all(self) -> list[tuple[Era, RunOutcome]]:
        """Every era that took over, with what it left behind."""
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

    # -- what is served

    def _start(self, post: Post) -> Process:
        self._enter(self._current)
        process = super()._start(post)
        self._era_of[process.name] = self._current
        self._successor_of[process.name] = self._successor
        return process

    def _router(self, name: str, result_position: ResultPosition) -> InputMachine:
        config, query = for_router(self.scenario, name, self._workers), self.scenario.query
        beginning = self._beginning(result_position)
        if self._successor is None:
            return RouterMachine(query, result_position, config, lambda _: None, beginning)
        return self._closing(result_position, config, beginning, self._successor)

    def _closing(
        self, result_position: ResultPosition, config: RouterConfig, beginning: Beginning, successor: int
    ) -> InputMachine:
        query = self.scenario.query
        keeps_order = is_same_order(query, self._replacement.scenarios[successor - 1].query)
        return ClosingRouter(query, result_position, config, lambda _: None, beginning, keeps_order=keeps_order)

    def _beginning(self, result_position: ResultPosition) -> Beginning:
        era = self._eras[self._current]
        if self._current == FIRST_GENERATION or result_position > START:
            return era.begun
        backfill, seen = self._announcement(self._current).backfill, self._seen.pop(self._current, ())
        begun = fill(self._history(self.scenario), self.scenario.query, era.begun, backfill, seen)
        era.starts = dict(begun.starts)
        return begun

    def _history(self, scenario: Scenario) -> InputHistory:
        inputs = InputsLog(scenario, self._feed.available)
        topics = [str(number) for number in range(len(scenario.query.inputs))]
        return InputHistory(cast("Log[bytes]", inputs), topics, inputs.parse)

    def _see(self, number: int) -> None:
        """What the router of a generation sees while the one before it answers."""
        scenario = self._replacement.scenarios[number - 1]
        self._seen[number] = seen_now(self._history(scenario), scenario.query)

    def _sink(self, result_position: ResultPosition) -> Machine:
        return SinkMachine(self.scenario.query, result_position, self._current)

    def _is_wanted(self, post: Post) -> bool:
        predicates = len(self._replacement.scenarios[self._current - 1].query.predicates)
        is_there = bool(post.group) or post.role is not Role.MUTABLE or post.number < predicates
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
            if self._generations.hear(record):
                self._see(record.generation)
        elif isinstance(record, Takeover) and self._generations.hear(record):
            self._take_over(record)
        return record

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
