"""Everything about a run that is drawn from its seed: the question, the input rows, the layout and the faults."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from random import Random

import numpy as np
import pyarrow as pa

from spojoin.model import Domain, Order, Query
from spojoin.roles.router.config import RouterConfig
from spojoin.simulate.asked import TICK_US, Attribute, DrawnQuestion, as_interval_join, draw_question
from spojoin.simulate.oracle import OracleJoin, SourceRow, Value, evaluate, is_refused, is_valid
from spojoin.wire.records import I64, DeadLetter, Rows

Place = tuple[int, int]
REFUSED = "null or NaN"


@dataclass(frozen=True, slots=True)
class ScenarioMessage:
    """One message of an input partition: rows, or none and a promise of silence up to `heartbeat_us`."""

    offset: int
    rows: tuple[SourceRow, ...]
    heartbeat_us: int | None


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong, as a chance a scheduler step, and how many crashes there are at most.

    crash: a process dies, its unsent appends lost or landing later; zombie: of these, it keeps running beside its heir
    twice: an append happens twice; stall: a process doesn't hear of a topic for a while
    stale: an old result position is given; rescale: a router restart changes the number of workers
    layouts: how often a controller changes it while data flows, taking workers away and bringing others
    encode: records pass through the wire codec
    """

    crash: float
    zombie: float
    twice: float
    stall: float
    stale: float
    rescale: float
    layouts: int
    encode: bool
    at_most: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed's world; `inputs` holds each partition's messages in offset order."""

    seed: int
    query: Query
    join: OracleJoin
    inputs: dict[Place, tuple[ScenarioMessage, ...]]
    config: RouterConfig
    faults: Faults
    limits: dict[str, int]

    @property
    def has_text_keys(self) -> bool:
        """Whether any stream's keys are text."""
        return any(isinstance(row.key, str) for row in self.rows())

    def rows(self) -> Iterator[SourceRow]:
        """All rows, each partition's in its order."""
        for messages in self.inputs.values():
            for message in messages:
                yield from message.rows

    def valid_rows(self) -> list[SourceRow]:
        """Rows with a time where one is used and join values that can be ordered."""
        return [row for row in self.rows() if is_valid(self.join, row, self.query.needs_time)]


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    return draw_asked(seed)[0]


def draw_asked(seed: int) -> tuple[Scenario, DrawnQuestion]:
    """The scenario of a seed and what it asks, with columns and all."""
    rngs = chain([Random(seed)], (Random(f"again {number} {seed}") for number in count()))
    return next(drawn for drawn in (_draw(seed, rng) for rng in rngs) if fits(drawn[0]))


def fits(scenario: Scenario) -> bool:
    """Whether all codes have 64 bits: a row with one that has not is refused, which the oracle doesn't know of."""
    codes = (code for row in scenario.valid_rows() for code in codes_of(scenario.query, row))
    return all(-(2**63) <= code < 2**63 for code in codes)


def _draw(seed: int, rng: Random) -> tuple[Scenario, DrawnQuestion]:
    question = _some_interval_join(seed, draw_question(rng))
    config = _draw_config(rng, question.query)
    workers_max = rng.randint(config.workers, 4)
    scenario = Scenario(
        seed,
        question.query,
        question.join,
        _draw_inputs(rng, question),
        replace(config, workers_max=workers_max),
        _draw_faults(rng),
        _draw_limits(rng),
    )
    return scenario, question


def _some_interval_join(seed: int, question: DrawnQuestion) -> DrawnQuestion:
    """One in four of the questions in event-time order, by draws of their own."""
    rng = Random(f"interval {seed}")
    if question.query.order is Order.ARRIVAL or rng.random() >= 0.25:
        return question
    return as_interval_join(rng, question)


# --- layout and faults ------------------------------------------------------------------------------------------------


def _draw_config(rng: Random, query: Query) -> RouterConfig:
    batch = rng.choice((1, 2, 3, 4, 6, 8, 12))
    if not query.window.is_time and query.window.slide > batch:
        batch = rng.choice([d for d in range(1, query.window.slide + 1) if query.window.slide % d == 0])
    return RouterConfig(
        router_id="router-0",
        workers=rng.choice((1, 1, 2, 3, 4)),
        frame_tuples=rng.choice((1, 2, 3, 5, 8, 16)),
        batch_tuples=batch,
        batch_frames=rng.choice((2, 4, 16, 256)),
        handover_frames=rng.choice((1, 2, 3, 5)),
        linger_ms=rng.choice((0, 1, 5, 50)),
        idle_timeout_ms=1_000_000,
        credits_frames=rng.choice((1, 2, 4, 64)),
    )


def _draw_faults(rng: Random) -> Faults:
    if rng.random() < 0.1:
        return Faults(0, 0, 0, 0, 0, 0, 0, rng.random() < 0.2, 0)
    return Faults(
        crash=rng.choice((0.0, 0.002, 0.005, 0.02)),
        zombie=rng.choice((0.0, 0.3, 0.7)),
        twice=rng.choice((0.0, 0.02, 0.2)),
        stall=rng.choice((0.0, 0.005, 0.02)),
        stale=rng.choice((0.0, 0.3)),
        rescale=rng.choice((0.0, 0.5, 1.0)),
        layouts=rng.choice((0, 0, 1, 2, 4)),
        encode=rng.random() < 0.2,
        at_most=rng.choice((2, 6, 16)),
    )


#: Sizes of queues and chunks that the seed shrinks, so that back-pressure and split frames happen at all.
SHRUNK = {
    "spojoin.protocol.parts.CHUNK_PROBES_FIRST": (1, 2, 3, 64),
    "spojoin.protocol.parts.CHUNK_PARTNERS": (1, 4, 1 << 20),
    "spojoin.roles.logical_and.machine.WAITING_MAX": (1, 2, 64),
    "spojoin.roles.pojoin.machine.WAITING_MAX": (1, 2, 64),
    "spojoin.roles.pojoin.worker.PATIENCE_MS": (0, 50, 2_000),
}


def _draw_limits(rng: Random) -> dict[str, int]:
    return {name: rng.choice(sizes) for name, sizes in SHRUNK.items()}


# --- inputs -----------------------------------------------------------------------------------------------------------


def _draw_inputs(rng: Random, question: DrawnQuestion) -> dict[Place, tuple[ScenarioMessage, ...]]:
    places = [(s, p) for s in range(len(question.attributes)) for p in range(rng.choice((1, 1, 2, 3)))]
    weights = [rng.choice((1.0, 1.0, 1.0, 0.1)) for _ in places]
    messages: dict[Place, list[ScenarioMessage]] = {place: [] for place in places}
    writer = _Writer(rng, question)
    left = rng.choice((25, 40, 40, 60, 60, 90, 160))
    while left > 0:
        place = rng.choices(places, weights)[0]
        size = min(left, rng.choice((1, 1, 1, 2, 4)))
        messages[place].append(writer.message(place, len(messages[place]), size))
        left -= size
    return {place: tuple(written) for place, written in messages.items()}


class _Writer:
    """Writes messages; its clock runs on a little with every row."""

    def __init__(self, rng: Random, question: DrawnQuestion) -> None:
        self._rng = rng
        self._question = question
        self._clock_us = rng.choice((-3, 0, 3_400_000_000)) * TICK_US
        self._pace = rng.choice((0.1, 0.4, 0.9))
        self._jumps = rng.choice((0.0, 0.02))
        self._dirt = rng.choice((0.0, 0.0, 0.03, 0.1))
        self._skew = {place: rng.choice((0, 0, 2)) * TICK_US for place in ((s, p) for s in (0, 1) for p in range(3))}
        self._promised: dict[Place, int] = {}
        self._uses_text_keys = [rng.random() < 0.4 for _ in range(2)]
        self._written = 0

    def message(self, place: Place, offset: int, size: int) -> ScenarioMessage:
        if self._question.query.order is Order.EVENT_TIME and self._rng.random() < 0.04:
            return ScenarioMessage(offset, (), self._promise(place))
        return ScenarioMessage(offset, tuple(self._row(place, offset, i) for i in range(size)), None)

    def _promise(self, place: Place) -> int:
        self._promised[place] = self._clock_us - self._skew[place]
        return self._promised[place]

    def _row(self, place: Place, offset: int, row: int) -> SourceRow:
        self._written += 1
        key = self._written * 3
        values = {a.name: self._value(a) for a in self._question.attributes[place[0]]}
        user_key = f"k{key}" if self._uses_text_keys[place[0]] else key
        return SourceRow(*place, offset, row, self._time(place), user_key, values)

    def _value(self, attribute: Attribute) -> Value:
        if self._rng.random() < self._dirt:
            return float("nan") if isinstance(attribute.domain[0], float) and self._rng.random() < 0.5 else None
        return self._rng.choice(attribute.domain)

    def _time(self, place: Place) -> int | None:
        query = self._question.query
        if not query.needs_time or self._rng.random() < self._dirt / 4:
            return None
        if self._rng.random() < self._pace:
            self._clock_us += TICK_US * (30 if self._rng.random() < self._jumps else 1)
        back = self._rng.choice((0, 0, 1, 2, 5)) * TICK_US if self._rng.random() < 0.3 else 0
        time_us = self._clock_us - self._skew[place] - back
        return max(time_us, self._promised.get(place, time_us - 1) + 1 if place in self._promised else time_us)


# --- what a parser would hand to the router ---------------------------------------------------------------------------


def parse(scenario: Scenario, place: Place, messages: tuple[ScenarioMessage, ...], first_row: int) -> Rows:
    """The rows of consecutive messages, the first of them from `first_row` on, as the router gets them."""
    rows = [r for m in messages for r in m.rows if m.offset > messages[0].offset or r.row >= first_row]
    valid: list[SourceRow] = []
    refused: list[SourceRow] = []
    for row in rows:
        (valid if is_valid(scenario.join, row, scenario.query.needs_time) else refused).append(row)
    heartbeats = [m.heartbeat_us for m in messages if m.heartbeat_us is not None]
    return Rows(
        offsets=_int64(r.offset for r in valid),
        rows=_int64(r.row for r in valid),
        next_offset=messages[-1].offset + 1,
        codes=tuple(_int64(codes) for codes in zip(*(codes_of(scenario.query, r) for r in valid), strict=True))
        if valid
        else tuple(_int64(()) for _ in scenario.query.streams[place[0]].keys),
        times_us=_int64(r.time_us for r in valid) if scenario.query.needs_time else None,
        keys=pa.array([r.key for r in valid], _key_type(scenario, place[0])),
        produced_ms=_int64(r.offset for r in valid),
        dead=[DeadLetter(*r.place, REFUSED, "", b"") for r in refused],
        heartbeat_us=max(heartbeats, default=None),
    )


def codes_of(query: Query, row: SourceRow) -> tuple[int, ...]:
    """A row's code in each key column of its stream, made from the value and the definition of a code."""
    codes = []
    for key in query.streams[row.stream].keys:
        value = evaluate(key.expression, row.values, key.domain is Domain.FLOAT)
        assert not is_refused(value)
        codes.append(fold(value) if key.domain is Domain.FLOAT else int(value * 10**key.scale))  # type: ignore[arg-type]
    return tuple(codes)


def fold(value: float) -> int:
    """A double's code: its bits, folded so that signed integers order as the doubles do."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


def _int64(values: object) -> I64:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]


def _key_type(scenario: Scenario, stream: int) -> pa.DataType:
    first = next((r for r in scenario.rows() if r.stream == stream), None)
    return pa.string() if first is not None and isinstance(first.key, str) else pa.int64()


def for_router(scenario: Scenario, router_id: str, workers: int) -> RouterConfig:
    """The scenario's layout for one router instance."""
    return replace(scenario.config, router_id=router_id, workers=workers)
