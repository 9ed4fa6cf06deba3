"""The events that seeds exercised: rules that acted, roles that restarted, forms of statements, records in the log.

This module lists all counted events, so that a table also shows events that no seed hit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from loadgen.simulate.broker import Target
from loadgen.simulate.conditions import Computation, SideColumn
from loadgen.simulate.feed import ENDS_AGAIN
from loadgen.simulate.oracle import Comparison
from loadgen.simulate.scenario import Scenario
from loadgen.simulate.world import World
from spojoin.model import OPERATORS, Arithmetic, Column, Expression, Op, Order, Output, TypeName
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import Closing, DeadLetter, Frame, Part, Record, Result

#: The roles that are killed, by the name of their processes.
ROLES = ("intake", "router", "mutable", "permutation", "pojoin", "logical-and", "sink")

#: Events by group: a rule of the protocol, faults, roles, forms of statements.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "P1 log": ("role reads a trimmed log", "record passes the wire codec", "process ends for records trimmed unread"),
    "P2 epochs": (
        "barrier claims the log",
        "barrier of a taken epoch refused",
        "router fenced by a later claim",
        "router fenced while it starts",
    ),
    "P3 acceptance": ("frame of an old epoch refused", "frame out of turn refused", "frame of other inputs refused"),
    "P4 sources": (
        "router goes on from a frame's sources",
        "router goes on within a message",
        "router restores an order by time",
        "late row refused",
        "row remembered as late refused again",
        "row with NULL or NaN refused",
    ),
    "P5 frames": (
        "full frame",
        "frame that lingered",
        "empty frame",
        "bound is a column",
        "bound is a constant",
        "void row",
        "row in no slice",
        "frame shared by two streams of one input",
    ),
    "P6 parts": ("repeated chunk cut", "chunk ahead of its turn refused", "part of a finished frame dropped"),
    "P7 places": ("worker waits for a batch", "batch comes before its frame", "worker searches batches"),
    "P8 batches": ("batch sealed full", "batch sealed early", "batch written twice"),
    "P9 recovery": (
        "frames trimmed",
        "batches trimmed",
        "runs trimmed",
        "partials trimmed",
        "matches trimmed",
        "blocks trimmed",
        "positions trimmed",
    ),
    "P10 chunks": ("part in several chunks", "result in several records"),
    "P11 workers": (
        "worker count changes in the log",
        "request too large refused",
        "request out of date ignored",
        "batches read again",
        "worker dismissed",
        "worker stands in",
        "router out of credits",
    ),
    "P19 grid": (
        "frame answered by one of several rows",
        "frame answered by several rows' columns",
        "worker outside the grid",
        "batches kept as rows change",
        "worker answers for another row",
        "worker answers late for another row",
        "answer that sees only some of the tuples held",
        "grid changes in the log",
    ),
    "P20 result partitions": (
        "frame answered by one of several sinks",
        "sink ahead of the result position",
        "result of a partition that is ahead left out",
        "part for another sink left out",
        "number of partitions changes",
        "row kept by its key",
        "row of another key left out",
        "row without a key",
    ),
    "P21 columns by key": (
        "batch divided among columns",
        "key becomes hot",
        "key cools down",
        "key forgotten",
        "tuple held in turn",
        "tuple held by its key beside a spread one",
        "probe asked of another key's column",
        "batches read again by key",
        "spread keys known at a takeover",
    ),
    "P22 mutable part": (
        "frame evaluated by one of several joiners",
        "batch sorted by one of several joiners",
        "frame combined by one of several logical ANDs",
    ),
    "P22 answerers": (
        "frame of one of several answerers",
        "frame of several columns",
        "answerer stands in",
        "frame evaluated beside later tuples",
        "batch sorted in place of another",
    ),
    "P23 blocks": (
        "block ends within a message",
        "block with dead letters",
        "block that was taken before left out",
        "block taken in part",
        "intake begins where a router resumes",
        "intake waits for the router",
        "router that is silent forgets a block",
    ),
    "P12 generations": (
        "log closed",
        "record behind a closed log refused",
        "takeover",
        "takeover of an order by time",
        "silent row",
        "frame of silent rows alone",
        "backfill of the window",
        "backfill of nothing",
        "backfill from the earliest",
    ),
    "P13 names": (
        "text numbered",
        "name learned from a frame",
        "name learned from a batch",
        "name forgotten",
        "forgotten name given again",
    ),
    "P14 packing": (
        "record passed by reference",
        "frame taken ahead of the log",
        "record held until its frame is in the log",
        "held record let go",
        "packing changed",
    ),
    "P15 seats": (
        "seat claimed at the start",
        "seat claimed",
        "record said on taking the seat",
        "speaker falls silent",
        "seat taken again in one life",
        "own appends under way on taking it again",
        "appends of another aborted",
        "taking the seat waits for transactions",
        "log out of reach",
    ),
    "P16 rows that ask": (
        "row closes in its own frame",
        "row closes with a later row",
        "row closes in a frame without rows",
        "row that finds nothing answered",
        "own tuple left out",
        "open rows restored from batches",
        "open right rows restored from batches",
        "rows of both sides close with one frame",
    ),
    "takes the seat of another": ROLES,
    "starts again": ROLES,
    "keeps running beside its successor": ROLES,
    "dies within a record": ROLES,
    "reads nothing for a while": ROLES,
    "stands still": ROLES,
    "join": ("self, one stream", "self, two streams", "cross", "partitions of one input"),
    "order": ("arrival", "event time", "rows may be late", "heartbeat"),
    "window": ("count", "time", "interval", "slide of one", "slide", "window shorter than the rows"),
    "output": ("count", "pairs", "pairs with a limit", "bitmap", "rows"),
    "answer": (
        "at arrival",
        "at close",
        "inner",
        "left",
        "full",
        "semi",
        "anti",
        "aggregates",
        "condition on groups",
        "best partners",
    ),
    "operator": ("<", "<=", ">", ">=", "=", "!=", "band <", "band <="),
    "condition": (
        "one",
        "two",
        "three or more",
        "over expressions",
        "text equality",
        "text inequality",
        "text regardless of case",
        "filter of one side",
        "filters of both sides",
        "residual",
    ),
    "column": ("int", "long", "decimal", "float", "double", "date", "timestamp", "text", "NULL"),
    "select": ("number or key", "column of a side", "computed"),
}
NAMES = frozenset((group, name) for group, names in EVENTS.items() for name in names)

Event = tuple[str, str]


@dataclass(slots=True)
class Coverage:
    """The number of seeds that hit each event, and its total number."""

    seeds: Counter[Event] = field(default_factory=Counter)
    times: Counter[Event] = field(default_factory=Counter)

    def add(self, events: Mapping[Event, int]) -> None:
        """Add one seed's events. Raises KeyError for an event that isn't listed."""
        for event, times in events.items():
            if event not in NAMES:
                raise KeyError(f"{event} isn't among the events that count")
            if times:
                self.seeds[event] += 1
                self.times[event] += times

    def merge(self, other: Coverage) -> None:
        """Add the events of other seeds."""
        self.seeds += other.seeds
        self.times += other.times

    def never(self) -> list[Event]:
        """The listed events that no seed hit."""
        return [event for event in listed() if not self.seeds[event]]

    def as_json(self) -> list[list[str | int]]:
        """Group, name, seeds and times of each event that was hit."""
        return [[*event, self.seeds[event], self.times[event]] for event in listed() if self.seeds[event]]

    @classmethod
    def from_json(cls, rows: Iterable[tuple[str, str, int, int]]) -> Coverage:
        """The coverage that `as_json` wrote; events that are no longer listed are left out."""
        known = [row for row in rows if (row[0], row[1]) in NAMES]
        return cls(Counter({(g, n): s for g, n, s, _ in known}), Counter({(g, n): t for g, n, _, t in known}))


def listed() -> Iterator[Event]:
    """All events in the order of the table."""
    for group, names in EVENTS.items():
        yield from ((group, name) for name in names)


def table(coverage: Coverage) -> str:
    """Each event with its seeds and its number, followed by the events that were never hit."""
    width = max(len(name) for _, name in NAMES)
    lines = [f"  {'':{width}} {'seeds':>12} {'times':>14}"]
    for group, names in EVENTS.items():
        lines.append(group)
        for name in names:
            seeds, times = coverage.seeds[group, name], coverage.times[group, name]
            lines.append(f"  {name:{width}} {seeds:>12,} {times:>14,}" + ("" if seeds else "  never"))
    never = coverage.never()
    lines.append("")
    lines.append(f"never hit, {len(never)} of {len(NAMES)}:" if never else f"all {len(NAMES)} were hit")
    lines += [f"  {group}: {name}" for group, name in never]
    return "\n".join(lines)


_COUNTS = {1: "one", 2: "two"}
_TYPES = {
    TypeName.INT: "int",
    TypeName.LONG: "long",
    TypeName.DECIMAL: "decimal",
    TypeName.FLOAT: "float",
    TypeName.DOUBLE: "double",
    TypeName.DATE: "date",
    TypeName.TIMESTAMP: "timestamp",
    TypeName.STRING: "text",
}
_NUMBERS = ("seq", "id")


def forms(scenario: Scenario) -> Counter[Event]:
    """Each form in the scenario, with its number of occurrences."""
    found: Counter[Event] = Counter()
    for part in (_join, _order, _window, _output, _answer, _conditions, _columns, _select):
        found.update(part(scenario))
    return found


def _join(scenario: Scenario) -> Iterator[Event]:
    if scenario.join.is_self:
        yield "join", "self, one stream" if scenario.query.is_self else "self, two streams"
    else:
        yield "join", "cross"
    if any(partition for _, partition in scenario.inputs):
        yield "join", "partitions of one input"


def _order(scenario: Scenario) -> Iterator[Event]:
    yield "order", "arrival" if scenario.query.order.by is Order.ARRIVAL else "event time"
    if scenario.query.order.lateness_us:
        yield "order", "rows may be late"
    for messages in scenario.inputs.values():
        yield from (
            ("order", "heartbeat") for message in messages[: -1 - ENDS_AGAIN] if message.heartbeat_us is not None
        )


def _window(scenario: Scenario) -> Iterator[Event]:
    window = scenario.join.window
    if scenario.join.interval_us is not None:
        yield "window", "interval"
        return
    yield "window", "time" if window.needs_time else "count"
    yield "window", "slide of one" if window.slide == 1 else "slide"
    if not window.needs_time and window.length < sum(1 for _ in scenario.rows()):
        yield "window", "window shorter than the rows"


def _output(scenario: Scenario) -> Iterator[Event]:
    name = {Output.COUNT: "count", Output.PAIRS: "pairs", Output.BITMAP: "bitmap", Output.ROWS: "rows"}
    yield "output", name[scenario.query.results.output]
    if scenario.join.limit is not None:
        yield "output", "pairs with a limit"


def _answer(scenario: Scenario) -> Iterator[Event]:
    asking = scenario.join.asking
    if asking is None:
        return
    yield "answer", "at close" if asking.at_close else "at arrival"
    yield "answer", asking.join.lower()
    if asking.aggregates:
        yield "answer", "aggregates"
    if asking.having is not None:
        yield "answer", "condition on groups"
    if asking.best is not None:
        yield "answer", "best partners"


def _conditions(scenario: Scenario) -> Iterator[Event]:
    join = scenario.join
    yield "condition", _COUNTS.get(len(join.comparisons), "three or more")
    for comparison in join.comparisons:
        yield "operator", "band " * comparison.op.is_band + OPERATORS[comparison.op].sign
        if isinstance(comparison.left, Arithmetic) or isinstance(comparison.right, Arithmetic):
            yield "condition", "over expressions"
        if TypeName.STRING in _types(scenario, comparison):
            yield "condition", "text equality" if comparison.op is Op.EQ else "text inequality"
        if comparison.ignores_case:
            yield "condition", "text regardless of case"
    filtered = sum(map(bool, join.filters))
    if filtered:
        yield "condition", "filters of both sides" if filtered == len(join.filters) else "filter of one side"
    if join.residuals:
        yield "condition", "residual"


def _columns(scenario: Scenario) -> Iterator[Event]:
    for comparison in scenario.join.comparisons:
        yield from (("column", _TYPES[kind]) for kind in _types(scenario, comparison))
    yield from (("column", "NULL") for row in scenario.rows() if None in row.values.values())


def _types(scenario: Scenario, comparison: Comparison) -> list[TypeName]:
    """The types of the columns that a comparison names."""
    streams = scenario.query.streams
    sides = ((comparison.left, streams[0]), (comparison.right, streams[-1]))
    return [stream.schema[name].name for expression, stream in sides for name in _names(expression)]


def _names(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Arithmetic):
        yield from _names(expression.left)
        yield from _names(expression.right)


def _select(scenario: Scenario) -> Iterator[Event]:
    for _, term in scenario.join.select:
        if isinstance(term, Computation):
            yield "select", "computed"
        elif isinstance(term, SideColumn):
            yield "select", "number or key" if term.name in _NUMBERS else "column of a side"


def landed(world: World, target: Target, record: Record) -> Counter[Event]:
    """The events that a record shows which has just landed at `target`."""
    found: Counter[Event] = Counter()
    if isinstance(record, Frame):
        accepted = world.frames.accepted
        if accepted and accepted[-1] is record:
            found.update(_of_frame(record, world.scenario.config))
            found.update(_of_change(accepted))
    elif isinstance(record, Part):
        found["P10 chunks", "part in several chunks"] += record.begin > 0
    elif isinstance(record, Result):
        found["P10 chunks", "result in several records"] += record.begin > 0
    elif isinstance(record, DeadLetter):
        found["P4 sources", "late row refused" if record.reason == "late" else "row with NULL or NaN refused"] += 1
    return found


def _of_frame(frame: Frame, config: RouterConfig) -> Iterator[Event]:
    seals = [piece for piece in frame.slices if piece.seals]
    if not frame.count:
        yield "P5 frames", "empty frame"
    elif frame.count >= config.frame_tuples:
        yield "P5 frames", "full frame"
    elif not seals:
        yield "P5 frames", "frame that lingered"
    for piece in frame.slices:
        if len(piece):
            yield "P5 frames", "bound is a column" if len(piece.lower) > 1 else "bound is a constant"
        if piece.void:
            yield "P5 frames", "void row"
    for piece in seals:
        size = piece.first_index + len(piece) - piece.batch_first
        yield "P8 batches", "batch sealed full" if size >= config.batch_tuples else "batch sealed early"
    if any(len(rows) for rows in frame.unjoined):
        yield "P5 frames", "row in no slice"
    if frame.is_shared and frame.count:
        yield "P5 frames", "frame shared by two streams of one input"
    yield from _of_closings(frame)
    if frame.silent.any():
        yield "P12 generations", "frame of silent rows alone" if frame.is_silent else "silent row"


def _of_closings(frame: Frame) -> Iterator[Event]:
    for stream, closing in enumerate(frame.closings):
        if len(closing.seqs):
            yield from _of_closing(frame, closing, stream)
    if len(frame.closings) > 1 and all(len(closing.seqs) for closing in frame.closings):
        yield "P16 rows that ask", "rows of both sides close with one frame"


def _of_closing(frame: Frame, closing: Closing, stream: int) -> Iterator[Event]:
    group = "P16 rows that ask"
    if not frame.count:
        yield group, "row closes in a frame without rows"
    elif closing.end > frame.slices[stream].first_index:
        yield group, "row closes in its own frame"
    else:
        yield group, "row closes with a later row"
    if len(closing) < len(closing.seqs):
        yield group, "row that finds nothing answered"
    if closing.own is not None:
        yield group, "own tuple left out"


def _of_change(accepted: list[Frame]) -> Iterator[Event]:
    if len(accepted) > 1 and accepted[-1].workers != accepted[-2].workers:
        yield "P11 workers", "worker count changes in the log"
    if len(accepted) > 1 and accepted[-1].columns != accepted[-2].columns:
        yield "P19 grid", "grid changes in the log"
