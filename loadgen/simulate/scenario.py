"""Everything about a run that is drawn from its seed: the query, the input rows, the sizes and the faults."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from random import Random

import numpy as np
import pyarrow as pa

from loadgen.simulate import probabilities as odds
from loadgen.simulate.broker import NO_BROKER_FAULTS, BrokerFaults, draw_broker_faults
from loadgen.simulate.drawn_query import TICK_US, Attribute, DrawnQuery, as_interval_join, draw_query
from loadgen.simulate.feed import ENDS_AGAIN, RowsReader, ScenarioMessage, Source
from loadgen.simulate.oracle import OracleJoin, SourceRow, Value, evaluate, is_refused, is_valid
from loadgen.simulate.process import ALL_APART, ALONE, DrawnPacking, draw_instances, draw_packings
from spojoin.arrays import I64
from spojoin.model import Computed, Domain, KeyColumn, Order, Query
from spojoin.protocol.blocks import Originals
from spojoin.protocol.key_columns import key_slots
from spojoin.protocol.packing import ANSWERER_NAME, parse_packing
from spojoin.protocol.result_partitions import ResultPartition, partitions_of
from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import DeadLetter, Rows

REFUSED = "null or NaN"


@dataclass(frozen=True, slots=True)
class Faults:
    """The probability of each fault, and the largest number of crashes and of stalls.

    crash: a process dies in a step; its unsent appends are lost or land later.
    zombie: a crashed process keeps running beside its replacement.
    twice: an append happens twice.
    stall: in a step, a process stops reading a topic for a while.
    stale: the result position that a process gets is an old one.
    rescale: a router that restarts changes the worker count.
    worker_counts: how many times a controller changes the worker count while data flows.
    encode: whether records pass through the wire codec.
    at_most: the most crashes, and the most stalls.
    """

    crash: float
    zombie: float
    twice: float
    stall: float
    stale: float
    rescale: float
    worker_counts: int
    encode: bool
    at_most: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker that is gone from a step on and never comes back: every frame has another row that can answer it."""

    worker: int
    step: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed's world; `inputs` holds each partition's messages in offset order.

    reader: the product's reader of rows; None if the simulator makes codes from values itself
    packing: which roles share a process at first; repacks: later packings with their first steps
    columns: of the workers' grid, by the routers in turn; 0: all workers are one row
    columns_by_key: whether they are by key, by the routers in turn
    mutable_rows: how many joiners each predicate has; logical_ands: how many there are; where they have own processes
    sinks: each has its own partition of the results
    intakes: how many read the inputs for the router; 0: it reads them itself
    instances: of each process, if there are several; patience_ms: how long the speaker may be silent
    loss: the worker that dies for good, if one does
    bridges_lulls: whether the storm continues after a lull in which processes are down or stalled. In some older kept
    scenarios it ends there, and most rows are answered in the quiet after it.
    """

    seed: int
    query: Query
    join: OracleJoin
    inputs: dict[Source, tuple[ScenarioMessage, ...]]
    config: RouterConfig
    faults: Faults
    limits: dict[str, int]
    reader: RowsReader | None = None
    packing: DrawnPacking = ALL_APART
    repacks: tuple[tuple[int, DrawnPacking], ...] = ()
    instances: tuple[str, ...] = ALONE
    patience_ms: int = 500
    broker: BrokerFaults = NO_BROKER_FAULTS
    bridges_lulls: bool = True
    columns: tuple[int, ...] = (0,)
    columns_by_key: tuple[bool, ...] = (False,)
    mutable_rows: int = 1
    logical_ands: int = 1
    sinks: int = 1
    intakes: int = 0
    loss: Loss | None = None

    @property
    def result_partitions(self) -> list[ResultPartition]:
        """The partitions of the results, one for each sink."""
        return partitions_of(self.sinks, by_key=self.query.results.key is not None)

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
        """Rows with a time, if one is used, and join values that can be ordered."""
        return [row for row in self.rows() if is_valid(self.join, row, self.query.needs_time)]


#: Transforms a drawn query with a separate generator.
Elaborate = Callable[[Random, DrawnQuery], DrawnQuery]


def draw(seed: int) -> Scenario:
    return with_packings(draw_with_query(seed)[0])


def with_packings(scenario: Scenario) -> Scenario:
    """The scenario with packings, a broker, grids of workers and a loss, which separate generators of its seed draw."""
    return with_answerers(with_loss(with_grids(scenario)))


def with_grids(scenario: Scenario) -> Scenario:
    """The scenario with packings, a broker and grids of workers."""
    return _some_by_key(_with_surroundings(scenario))


def _with_surroundings(scenario: Scenario) -> Scenario:
    packing, repacks = draw_packings(scenario.seed)
    instances, patience_ms = draw_instances(scenario.seed)
    rng = Random(f"mutable {scenario.seed}")
    return replace(
        scenario,
        query=_with_key(scenario.seed, scenario.query),
        packing=packing,
        repacks=repacks,
        instances=instances,
        patience_ms=patience_ms,
        broker=draw_broker_faults(scenario.seed),
        columns=_draw_columns(scenario.seed),
        mutable_rows=rng.choice(odds.MUTABLE_ROWS),
        logical_ands=rng.choice(odds.LOGICAL_ANDS),
        intakes=Random(f"intakes {scenario.seed}").choice(odds.INTAKES),
        sinks=draw_sinks(scenario.seed, (packing, *(later for _, later in repacks))),
    )


def _with_key(seed: int, query: Query) -> Query:
    """The query, some with a key of its results: a column of the select list, if it has one."""
    rng = Random(f"results by key {seed}")
    if not query.results.select or rng.random() >= odds.RESULTS_BY_KEY:
        return query
    return parse_query(f"{query.text.rstrip()}\nkey: {rng.choice(query.results.select).name}\n")


def with_loss(scenario: Scenario) -> Scenario:
    """Some scenarios with workers that all stay, in two or more rows, except one that dies for good.

    The columns stay as well: a worker whose share changes forgets earlier frames, which then wait for the lost one.
    Scenarios of one seed with the same most workers lose the same one.
    """
    rng = Random(f"loss {scenario.seed}")
    if rng.random() >= odds.LOSS or scenario.config.workers_max < 2:
        return scenario
    workers, columns = rng.choice([(w, c) for w, c in odds.ROWS_WITH_LOSS if w <= scenario.config.workers_max])
    return replace(
        scenario,
        config=replace(scenario.config, workers=workers),
        faults=replace(scenario.faults, rescale=0.0, worker_counts=0),
        packing=ALL_APART,
        repacks=(),
        instances=ALONE,
        columns=(columns,),
        columns_by_key=scenario.columns_by_key[:1],
        loss=Loss(rng.randrange(workers), rng.choice(odds.LOST_AT_STEPS)),
    )


def with_answerers(scenario: Scenario) -> Scenario:
    """Some scenarios whose workers are answerers at first, and in some of the packings that they move to."""
    rng = Random(f"answerers {scenario.seed}")
    if rng.random() >= odds.ANSWERERS or not scenario.query.layout.has_mutable_part:
        return scenario
    answerers = DrawnPacking(parse_packing(ANSWERER_NAME))
    repacks = tuple((step, rng.choice((drawn, answerers))) for step, drawn in scenario.repacks)
    return replace(scenario, packing=answerers, repacks=repacks)


def _draw_columns(seed: int) -> tuple[int, ...]:
    rng = Random(f"columns {seed}")
    return tuple(rng.choice(odds.COLUMNS) for _ in range(rng.choice(odds.COLUMNS_DRAWN)))


def draw_sinks(seed: int | str, packings: Iterable[DrawnPacking]) -> int:
    """The number of sinks, by a separate generator; one if it ever shares a process."""
    drawn = Random(f"sinks {seed}").choice(odds.SINKS)
    return 1 if any(each.packing.is_shared(Role.SINK) for each in packings) else drawn


def _some_by_key(scenario: Scenario) -> Scenario:
    """Makes the columns of some queries that have a key several, with workers for them, and by key.

    Frames and batches are small then, so that workers search most tuples.
    """
    rng = Random(f"columns by key {scenario.seed}")
    if not key_slots(scenario.query) or rng.random() >= odds.COLUMNS_BY_KEY:
        return scenario
    columns = tuple(rng.choice(odds.KEY_COLUMNS) for _ in range(rng.choice(odds.COLUMNS_DRAWN)))
    by_key = tuple(rng.random() < odds.ROUTER_BY_KEY for _ in range(rng.choice(odds.COLUMNS_DRAWN)))
    workers = max((scenario.config.workers, *columns))
    config = scenario.config
    config = replace(
        config,
        workers=workers,
        workers_max=max(config.workers_max, workers),
        frame_tuples=rng.choice(odds.FRAME_TUPLES_BY_KEY),
        batch_tuples=rng.choice([size for size in odds.BATCH_TUPLES_BY_KEY if config.batch_tuples % size == 0]),
        handover_frames=1,
    )
    return replace(scenario, columns=columns, columns_by_key=by_key, config=config)


def draw_with_query(seed: int, elaborate: Elaborate | None = None) -> tuple[Scenario, DrawnQuery]:
    """The scenario of a seed, and its query with the columns that it was drawn from."""
    rngs = chain([Random(seed)], (Random(f"again {number} {seed}") for number in count()))
    return next(drawn for drawn in (_draw(seed, rng, elaborate) for rng in rngs) if fits(drawn[0]))


def fits(scenario: Scenario) -> bool:
    """Whether all codes fit in 64 bits. The product refuses other rows, and the oracle lacks this rule."""
    streams = [(stream, number) for stream, number in enumerate(scenario.query.fed_by)]
    rows = scenario.valid_rows()
    codes = (
        code for s, number in streams for row in rows if row.stream == number for code in codes_of(scenario, s, row)
    )
    return all(code is None or -(2**63) <= code < 2**63 for code in codes)


def _draw(seed: int, rng: Random, elaborate: Elaborate | None) -> tuple[Scenario, DrawnQuery]:
    drawn = _some_interval_join(seed, draw_query(rng))
    if elaborate is not None:
        drawn = elaborate(Random(f"statement {seed}"), drawn)
    config = _draw_config(rng, drawn.query)
    workers_max = rng.randint(config.workers, odds.WORKERS_MAX)
    scenario = Scenario(
        seed,
        drawn.query,
        drawn.join,
        _draw_inputs(rng, drawn),
        replace(config, workers_max=workers_max),
        _draw_faults(rng),
        {name: rng.choice(sizes) for name, sizes in SHRUNK.items()},
    )
    return with_reader(scenario), drawn


def with_reader(scenario: Scenario) -> Scenario:
    """The scenario with the product's reader of rows, if NULL takes part."""
    if not scenario.join.keeps_nulls:
        return scenario
    return replace(scenario, reader=RowsReader(scenario.query, scenario.inputs))


def _some_interval_join(seed: int, drawn: DrawnQuery) -> DrawnQuery:
    """Makes some queries in event-time order interval joins, drawn by a separate generator."""
    rng = Random(f"interval {seed}")
    if drawn.query.order.by is Order.ARRIVAL or rng.random() >= odds.INTERVAL_JOIN:
        return drawn
    return as_interval_join(rng, drawn)


# --- sizes and faults ------------------------------------------------------------------------------------------------


def _draw_config(rng: Random, query: Query) -> RouterConfig:
    batch = rng.choice(odds.BATCH_TUPLES)
    if query.window.has_slides_of(batch + 1):
        batch = rng.choice([d for d in range(1, query.window.slide + 1) if query.window.slide % d == 0])
    return RouterConfig(
        router_id="router-0",
        workers=rng.choice(odds.WORKERS),
        frame_tuples=rng.choice(odds.FRAME_TUPLES),
        batch_tuples=batch,
        batch_frames=rng.choice(odds.BATCH_FRAMES),
        handover_frames=rng.choice(odds.HANDOVER_FRAMES),
        linger_ms=rng.choice(odds.LINGER_MS),
        credits_frames=rng.choice(odds.CREDITS_FRAMES),
    )


def _draw_faults(rng: Random) -> Faults:
    if rng.random() < odds.NO_FAULTS:
        return Faults(0, 0, 0, 0, 0, 0, 0, rng.random() < odds.ENCODED, 0)
    return Faults(
        crash=rng.choice(odds.CRASH_A_STEP),
        zombie=rng.choice(odds.ZOMBIE),
        twice=rng.choice(odds.TWICE),
        stall=rng.choice(odds.STALL_A_STEP),
        stale=rng.choice(odds.STALE),
        rescale=rng.choice(odds.RESCALE),
        worker_counts=rng.choice(odds.WORKER_COUNTS),
        encode=rng.random() < odds.ENCODED,
        at_most=rng.choice(odds.FAULTS_MAX),
    )


#: Limits that the seed shrinks, so that back-pressure, split frames, forgotten names and listed nodes occur.
SHRUNK = {
    "spojoin.protocol.frame_evaluation.CHUNK_PROBES_FIRST": (1, 2, 3, 64),
    "spojoin.protocol.frame_evaluation.CHUNK_PARTNERS": (1, 4, 1 << 20),
    "spojoin.roles.logical_and.machine.WAITING_MAX": (1, 2, 64),
    "spojoin.roles.pojoin.machine.WAITING_MAX": (1, 2, 64),
    "spojoin.roles.pojoin.worker.PATIENCE_MS": (0, 50, 2_000),
    "spojoin.roles.router.value_numbers.SWEEP_MIN": (1, 3, 1 << 16),
    "spojoin.index.evaluation.SCAN_MAX": (1, 3, 512),
    "spojoin.protocol.stand_in.PATIENCE_MS": (0, 50, 250),
    "spojoin.protocol.stand_in.STINT_MS": (1, 1_000),
    "spojoin.roles.intake.machine.AHEAD_ROWS_MAX": (1, 8, 1 << 18),
    "spojoin.roles.router.block_rows.POSITIONS_MS": (0, 50, 1_000),
    "spojoin.protocol.blocks.BLOCK_ROWS_MAX": (1, 2, 1 << 16),
}


# --- inputs -----------------------------------------------------------------------------------------------------------


def _draw_inputs(rng: Random, drawn: DrawnQuery) -> dict[Source, tuple[ScenarioMessage, ...]]:
    sources = [(s, p) for s in range(len(drawn.attributes)) for p in range(rng.choice(odds.PARTITIONS))]
    weights = [rng.choice(odds.PARTITION_WEIGHTS) for _ in sources]
    messages: dict[Source, list[ScenarioMessage]] = {source: [] for source in sources}
    writer = _Writer(rng, drawn)
    left = rng.choice(odds.ROWS)
    while left > 0:
        source = rng.choices(sources, weights)[0]
        size = min(left, rng.choice(odds.ROWS_A_MESSAGE))
        messages[source].append(writer.message(source, len(messages[source]), size))
        left -= size
    return _ended({source: tuple(written) for source, written in messages.items()})


def _ended(inputs: dict[Source, tuple[ScenarioMessage, ...]]) -> dict[Source, tuple[ScenarioMessage, ...]]:
    """The inputs, each with a final promise that no further row follows, so that all rows can be merged."""
    reached = [message.heartbeat_us for messages in inputs.values() for message in messages]
    reached += [row.time_us for messages in inputs.values() for message in messages for row in message.rows]
    times = [time for time in reached if time is not None]
    if not times:
        return inputs
    end_us = max(times) + TICK_US
    return {
        source: (*messages, *(ScenarioMessage(len(messages) + n, (), end_us) for n in range(1 + ENDS_AGAIN)))
        for source, messages in inputs.items()
    }


class _Writer:
    """Writes messages; each row advances its clock."""

    def __init__(self, rng: Random, drawn: DrawnQuery) -> None:
        self._rng = rng
        self._drawn = drawn
        self._clock_us = rng.choice(odds.CLOCK_START_TICKS) * TICK_US
        self._pace = rng.choice(odds.PACE)
        self._jumps = rng.choice(odds.JUMPS)
        self._dirt = rng.choice(odds.DIRT)
        sources = ((s, p) for s in (0, 1) for p in range(max(odds.PARTITIONS)))
        self._skew = {source: rng.choice(odds.SKEW_TICKS) * TICK_US for source in sources}
        self._promised: dict[Source, int] = {}
        self._uses_text_keys = [rng.random() < odds.TEXT_KEYS and not drawn.join.keeps_nulls for _ in range(2)]
        self._written = 0

    def message(self, source: Source, offset: int, size: int) -> ScenarioMessage:
        if self._drawn.query.order.by is Order.EVENT_TIME and self._rng.random() < odds.HEARTBEAT:
            return ScenarioMessage(offset, (), self._promise(source))
        return ScenarioMessage(offset, tuple(self._row(source, offset, i) for i in range(size)), None)

    def _promise(self, source: Source) -> int:
        self._promised[source] = self._clock_us - self._skew[source]
        return self._promised[source]

    def _row(self, source: Source, offset: int, row: int) -> SourceRow:
        self._written += 1
        key = self._written * 3
        values = {a.name: self._value(a) for a in self._drawn.attributes[source[0]]}
        user_key = f"k{key}" if self._uses_text_keys[source[0]] else key
        return SourceRow(*source, offset, row, self._time(source), user_key, values)

    def _value(self, attribute: Attribute) -> Value:
        if self._rng.random() < self._dirt:
            is_nan = isinstance(attribute.domain[0], float) and self._rng.random() < odds.NAN
            return float("nan") if is_nan else None
        return self._rng.choice(attribute.domain)

    def _time(self, source: Source) -> int | None:
        query = self._drawn.query
        if not query.needs_time or self._rng.random() < self._dirt * odds.NULL_TIMES_OF_DIRT:
            return None
        if self._rng.random() < self._pace:
            self._clock_us += TICK_US * (odds.JUMP_TICKS if self._rng.random() < self._jumps else 1)
        back = self._rng.choice(odds.BACK_TICKS) * TICK_US if self._rng.random() < odds.RUNS_BACK else 0
        time_us = self._clock_us - self._skew[source] - back
        return max(time_us, self._promised.get(source, time_us - 1) + 1 if source in self._promised else time_us)


# --- rows as a parser hands them to the router ------------------------------------------------------------------------


def originals_of(scenario: Scenario) -> Originals:
    """Returns rows of messages as they came."""
    return lambda stream, partition, first, end: (
        parse(scenario, (stream, partition), scenario.inputs[stream, partition][first:end], 0).as_it_came
    )


def parse(scenario: Scenario, source: Source, messages: tuple[ScenarioMessage, ...], first_row: int) -> Rows:
    """The rows of consecutive messages, the first of them from `first_row` on, as the router gets them."""
    if scenario.reader is not None:
        return scenario.reader.read(source, messages, first_row)
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
        codes=tuple(_int64(_code(key, r) for r in valid) for key in scenario.query.inputs[source[0]].keys),
        times_us=_int64(r.time_us for r in valid) if scenario.query.needs_time else None,
        keys=pa.array([r.key for r in valid], _key_type(scenario, source[0])),
        produced_ms=_int64(r.offset for r in valid),
        dead=[DeadLetter(*r.position, REFUSED, "", b"") for r in refused],
        heartbeat_us=max(heartbeats, default=None),
    )


def codes_of(scenario: Scenario, stream: int, row: SourceRow) -> tuple[int | None, ...]:
    """A row's code in each key column of a stream, made from the value and the definition of a code.

    None if the code depends on more than the value: for texts, which the router numbers, for values that stand for
    others, and for NULL and its mark.
    """
    return tuple(_code(key, row) for key in scenario.query.streams[stream].keys)


def _code(key: KeyColumn, row: SourceRow) -> int | None:
    is_derived = isinstance(key.expression, Computed) or key.rounding is not None or key.marks_void
    if is_derived or key.domain is Domain.ASSIGNED:
        return None
    value = evaluate(key.expression, row.values, key.domain is Domain.FLOAT)
    if is_refused(value):
        return None
    if isinstance(value, str):
        return int.from_bytes(value.encode()[:8].ljust(8, b"\0"), "big") - 2**63
    return fold(value) if key.domain is Domain.FLOAT else int(value * 10**key.scale)  # type: ignore[arg-type]


def fold(value: float) -> int:
    """A double's code: its bits, folded so that signed integers order as the doubles do."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


def _int64(values: object) -> I64:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]


def _key_type(scenario: Scenario, stream: int) -> pa.DataType:
    first = next((r for r in scenario.rows() if r.stream == stream), None)
    return pa.string() if first is not None and isinstance(first.key, str) else pa.int64()


def for_router(scenario: Scenario, router_id: str, number: int, workers: int) -> RouterConfig:
    """The scenario's configuration for one router instance, by its number among the processes started."""
    columns = scenario.columns[number % len(scenario.columns)] if scenario.query.layout.has_mutable_part else 0
    by_key = scenario.columns_by_key[number % len(scenario.columns_by_key)] and bool(key_slots(scenario.query))
    return replace(scenario.config, router_id=router_id, workers=workers, columns=columns, columns_by_key=by_key)
