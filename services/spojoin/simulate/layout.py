"""Runs a seed's world with another layout, with all its faults, and compares the output with the oracle's.

Routers and sinks are the services' own and are killed, doubled, stalled and given stale news as usual; workers are
killed and read the log again, and a controller changes the worker count. Services that the layout doesn't use idle.

The handshake join, whose workers don't read the log, runs without faults: its links deliver messages in a random order.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from spojoin.model import LayoutChoice, Method, Query
from spojoin.protocol.machine import Idle, Machine, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.handshake import HandshakeChain, Link
from spojoin.published.layouts.machine import LayoutMachine
from spojoin.published.layouts.workers import HANDSHAKE
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.simulate.makers import MachineMakers
from spojoin.simulate.method import Pipeline, judge_rows
from spojoin.simulate.outcome import RunOutcome
from spojoin.simulate.run import FAULTS_SHOWN, Failure, shrunk
from spojoin.simulate.scenario import Scenario, draw
from spojoin.simulate.verdict import Wrong, judge_output, state_bound
from spojoin.simulate.world import World


def _idle(*_: object) -> Machine:
    return Idle()


def _worker(query: Query, worker: int, result_position: ResultPosition) -> PoJoinWorker:
    return PoJoinWorker(query, worker, result_position, LayoutMachine)


#: Sides drop whole structures at a time, so they hold some tuples behind the window.
BEHIND = 64
#: How often messages wait on their links for the next frame.
WAITS = 0.2

WIRING = MachineMakers(
    router=RouterMachine, mutable=_idle, permutation=_idle, pojoin=_worker, logical_and=_idle, sink=SinkMachine
)


def run_layout(
    seed: int,
    choice: LayoutChoice,
    method: Method | None = None,
    draw_one: Callable[[int], Scenario] = draw,
) -> Failure | None:
    """None where the output equals the oracle's; `method` is the workers', by default the one that suits them."""
    scenario = draw_one(seed)
    query = replace(scenario.query, layout=choice, method=method or Method())
    scenario = replace(scenario, query=query)
    with shrunk(scenario):
        try:
            (_shake_hands if choice.name == HANDSHAKE else _weather)(scenario)
        except Wrong as wrong:
            return _failure(scenario, str(wrong), str(wrong).splitlines()[0])
        except Exception as error:  # noqa: BLE001 - whatever a machine raises is a finding, reported with its traceback
            return _failure(scenario, traceback.format_exc(), f"{type(error).__name__}: {error}")
    return None


def _failure(scenario: Scenario, what: str, reason: str) -> Failure:
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
