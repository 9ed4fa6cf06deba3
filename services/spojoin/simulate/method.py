"""Runs a seed's rows through another method of search in one process, without faults, and compares with the oracle.

The seed draws question, rows, sizes of frames and the order of messages, as it does for the services.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from random import Random

import numpy as np

from spojoin.model import Method
from spojoin.protocol.machine import START, Action, Emit, Machine
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.handshake import HandshakeChain
from spojoin.published.methods.machine import MethodMachine
from spojoin.published.methods.registry import SIDES
from spojoin.query.payload import no_payload
from spojoin.roles.router.config import UNLIMITED
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.simulate.messages import Source
from spojoin.simulate.oracle import SourceRow, nested_loop
from spojoin.simulate.run import Failure
from spojoin.simulate.scenario import Scenario, draw, parse
from spojoin.simulate.verdict import Row, Wrong, expected_rows, readable, rows_in
from spojoin.wire.keys import NO_KEYS
from spojoin.wire.records import Frame, Part, Record, Result, Rows

#: Promises that no input brings any more rows.
SILENCE_US = 2**62


def run_method(seed: int, method: Method, draw_one: Callable[[int], Scenario] = draw) -> Failure | None:
    """None where the output equals the oracle's. A query that a method refuses by design is not for it."""
    scenario = draw_one(seed)
    scenario = replace(scenario, query=replace(scenario.query, method=method))
    try:
        pipeline = Pipeline(scenario, MethodMachine(scenario.query, SIDES[method.name]))
        pipeline.run()
        judge_rows(scenario, pipeline)
    except Wrong as wrong:
        return _failure(scenario, str(wrong))
    except Exception:  # noqa: BLE001 - whatever a method raises is a finding, reported with its traceback
        return _failure(scenario, traceback.format_exc())
    return None


def _failure(scenario: Scenario, what: str) -> Failure:
    about = f"seed {scenario.seed}, method {scenario.query.method}: {what}\n{scenario.query.text}\n{scenario.config}"
    return Failure(scenario.seed, what.strip().splitlines()[-1], about)


class Pipeline:
    """Router, what searches, and sink, each record handed on at once. frames and rows: what came out, in order."""

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
        """All messages, those of each input in their order, the inputs in a drawn one."""
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
        """Hand on what a machine emits."""
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
    """Raises Wrong where a row is not the oracle's."""
    by_key = {(row.stream, row.key): row for row in scenario.rows()}
    order: list[SourceRow] = [row for frame in pipeline.frames for row in rows_in(scenario, frame, by_key)]
    expected = [row for probe in nested_loop(scenario.join, order) for row in expected_rows(scenario, probe, order)]
    found = [readable(scenario, row) for row in pipeline.rows]
    for i, (got, wanted) in enumerate(zip_longest(found, expected)):
        if got != wanted:
            raise Wrong(f"result row {i} is {got}; the oracle says {wanted}")
