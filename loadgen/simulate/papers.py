"""Runs a seed's rows with another search method, or its world with another layout, and compares with the oracle.

The seed draws the query, rows, frame sizes and the order of messages, as for the services.

Routers and sinks are the services' own, and are killed, doubled, stalled and given outdated result positions as usual.
Workers are killed and read the log again, and a controller changes the worker count. Services that the layout doesn't
use idle.

The handshake join, whose workers don't read the log, runs without faults: its links deliver messages in a random order.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from random import Random

import numpy as np

from loadgen.papers.layouts.handshake import HandshakeChain, Link
from loadgen.papers.layouts.machine import HANDSHAKE, LayoutMachine
from loadgen.papers.methods.machine import SIDES, MethodMachine
from loadgen.simulate.feed import Source
from loadgen.simulate.followers import RunOutcome
from loadgen.simulate.oracle import SourceRow, nested_loop
from loadgen.simulate.process import MachineMakers, make_sink
from loadgen.simulate.run import FAULTS_SHOWN, Failure, shrunk
from loadgen.simulate.scenario import Scenario, draw, parse
from loadgen.simulate.verdict import Row, Wrong, expected_rows, judge_output, readable, rows_in, state_bound
from loadgen.simulate.world import World
from spojoin.columns.stream_columns import no_payload
from spojoin.model import LayoutChoice, Method, Query
from spojoin.protocol.machine import START, Action, Emit, Idle, Machine, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router.config import UNLIMITED
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.columns import NO_KEYS
from spojoin.wire.records import Frame, Part, Record, Result, Rows

#: A promise that no input has further rows.
SILENCE_US = 2**62


def run_method(seed: int, method: Method, draw_one: Callable[[int], Scenario] = draw) -> Failure | None:
    """Returns None if the output equals the oracle's, or the method refuses the query by design."""
    scenario = draw_one(seed)
    scenario = replace(scenario, query=replace(scenario.query, method=method))
    try:
        pipeline = Pipeline(scenario, MethodMachine(scenario.query, SIDES[method.name]))
        pipeline.run()
        judge_rows(scenario, pipeline)
    except Wrong as wrong:
        return _failure(scenario, str(wrong))
    except Exception:  # noqa: BLE001 - any error of a method is a finding, reported with its traceback
        return _failure(scenario, traceback.format_exc())
    return None


def _failure(scenario: Scenario, what: str) -> Failure:
    about = f"seed {scenario.seed}, method {scenario.query.method}: {what}\n{scenario.query.text}\n{scenario.config}"
    return Failure(scenario.seed, what.strip().splitlines()[-1], about)


class Pipeline:
    """Router, search and sink, with records passed on at once. frames and rows: the output, in order."""

    def __init__(self, scenario: Scenario, machine: MethodMachine | HandshakeChain) -> None:
        query = scenario.query
        config = replace(scenario.config, credits_frames=UNLIMITED)
        self.frames: list[Frame] = []
        self.rows: list[Row] = []
        self._scenario = scenario
        self._router = RouterMachine(query, START, config)
        self._machine = machine
        self._sink = SinkMachine(query, START)
        self._readers: list[Machine] = [self._router, self._sink, self._machine]
        self._log: deque[Record] = deque()
        self.tuples_held = 0

    def run(self) -> None:
        """Feed all messages: each input's in order, the inputs in a drawn order."""
        rng, left = Random(self._scenario.seed), {place: deque(m) for place, m in self._scenario.inputs.items()}
        self._router.on_inputs(sorted(left))
        self._drain(self._router.on_caught_up())
        self._drain(self._router.on_chosen())
        while places := [place for place in sorted(left) if left[place]]:
            place = rng.choice(places)
            rows = parse(self._scenario, place, (left[place].popleft(),), 0)
            self._drain(self._router.on_rows(*place, rows))
        for place in sorted(left):
            self._drain(self._router.on_rows(*place, self._silence(place)))
        self._drain(self._router.flush())

    def _silence(self, place: Source) -> Rows:
        nothing = np.empty(0, np.int64)
        source = self._scenario.query.inputs[place[0]]
        columns = tuple(nothing for _ in source.keys)
        times_us = nothing if self._scenario.query.needs_time else None
        end = len(self._scenario.inputs[place])
        payload = no_payload(source)
        return Rows(
            nothing, nothing, end, columns, times_us, NO_KEYS, nothing, heartbeat_us=SILENCE_US, payload=payload
        )

    def _drain(self, actions: Iterator[Action]) -> None:
        self.take(actions)
        while self._log:
            record = self._log.popleft()
            for machine in self._readers:
                self.take(machine.on_record(Topic.FRAMES, 0, 0, record))
            self.tuples_held = max(self.tuples_held, self._machine.state_tuples())

    def take(self, actions: Iterator[Action]) -> None:
        """Pass on a machine's actions."""
        for action in actions:
            if not isinstance(action, Emit):
                continue
            if isinstance(action.record, Part):
                self.take(self._sink.on_record(action.topic, action.partition, 0, action.record))
            elif isinstance(action.record, Result):
                self.rows += action.record.rows.to_pylist()
            elif action.topic is Topic.FRAMES:
                if isinstance(action.record, Frame):
                    self.frames.append(action.record)
                self._log.append(action.record)


def judge_rows(scenario: Scenario, pipeline: Pipeline) -> None:
    """Raises Wrong if a row is not the oracle's."""
    by_key = {(row.stream, row.key): row for row in scenario.rows()}
    order: list[SourceRow] = [row for frame in pipeline.frames for row in rows_in(scenario, frame, by_key)]
    expected = [row for probe in nested_loop(scenario.join, order) for row in expected_rows(scenario, probe, order)]
    found = [readable(scenario, row) for row in pipeline.rows]
    for i, (got, wanted) in enumerate(zip_longest(found, expected)):
        if got != wanted:
            raise Wrong(f"result row {i} is {got}; the oracle says {wanted}")


def _idle(*_: object) -> Machine:
    return Idle()


def _worker(query: Query, worker: int, result_position: ResultPosition) -> PoJoinWorker:
    return PoJoinWorker(query, worker, result_position, LayoutMachine)


#: The most tuples before the window that sides may hold, since they drop whole structures at a time.
BEHIND = 64
#: The probability that messages wait on their links for the next frame.
WAITS = 0.2

WIRING = MachineMakers(
    router=RouterMachine, mutable=_idle, permutation=_idle, pojoin=_worker, logical_and=_idle, sink=make_sink
)


def run_layout(
    seed: int, choice: LayoutChoice, method: Method | None = None, draw_one: Callable[[int], Scenario] = draw
) -> Failure | None:
    """Returns None if the output equals the oracle's; `method` is the workers', by default the suitable one."""
    scenario = draw_one(seed)
    query = replace(scenario.query, layout=choice, method=method or Method())
    scenario = replace(scenario, query=query, loss=None)
    with shrunk(scenario):
        try:
            (_shake_hands if choice.name == HANDSHAKE else _weather)(scenario)
        except Wrong as wrong:
            return _layout_failure(scenario, str(wrong), str(wrong).splitlines()[0])
        except Exception as error:  # noqa: BLE001 - any error of a machine is a finding, reported with its traceback
            return _layout_failure(scenario, traceback.format_exc(), f"{type(error).__name__}: {error}")
    return None


def _layout_failure(scenario: Scenario, what: str, reason: str) -> Failure:
    query = scenario.query
    report = f"seed {scenario.seed}, {query.layout}, {query.method}: {what}\n{query.text}\n{scenario.config}"
    return Failure(scenario.seed, reason, report)


def _weather(scenario: Scenario) -> None:
    world = World(scenario, WIRING)
    try:
        _judge(scenario, world.run())
    except Wrong as wrong:
        raise Wrong("\n".join([str(wrong), *world.faults[-FAULTS_SHOWN:]])) from wrong


def _shake_hands(scenario: Scenario) -> None:
    rng = Random(f"links {scenario.seed}")

    def pick(links: Sequence[Link]) -> Link | None:
        return None if rng.random() < WAITS else rng.choice(links)

    chain = HandshakeChain(scenario.query, scenario.config.workers, pick)
    pipeline = Pipeline(scenario, chain)
    pipeline.run()
    pipeline.take(chain.deliver())
    judge_rows(scenario, pipeline)


def _judge(scenario: Scenario, outcome: RunOutcome) -> None:
    order = judge_output(scenario, outcome)
    bound = state_bound(scenario, order) + BEHIND
    for name, tuples in outcome.state_tuples.items():
        if tuples > bound:
            raise Wrong(f"{name} holds {tuples} tuples at rest; its share of windows and frames is at most {bound}")
    for topic in (Topic.PARTIALS, Topic.MATCHES, Topic.RUNS, Topic.BATCHES):
        if outcome.retained[topic]:
            raise Wrong(f"{outcome.retained[topic]} records of {topic} are retained, though all results are out")
