"""What seeds exercised: which rule acted, which role started again, which form of statement ran.

Every event that counts is listed here, so that a table also says what was never hit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: The roles that are killed, by the name of their processes.
ROLES = ("router", "mutable", "permutation", "pojoin", "logical-and", "sink")

#: Events by what they belong to: a rule of the protocol, faults, roles, forms of statements.
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
    "P9 recovery": ("frames trimmed", "batches trimmed", "runs trimmed", "partials trimmed", "matches trimmed"),
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
    """How many seeds hit each event, and how often it happened in all."""

    seeds: Counter[Event] = field(default_factory=Counter)
    times: Counter[Event] = field(default_factory=Counter)

    def add(self, events: Mapping[Event, int]) -> None:
        """One seed's events. Raises KeyError for one that isn't listed."""
        for event, times in events.items():
            if event not in NAMES:
                raise KeyError(f"{event} isn't among the events that count")
            if times:
                self.seeds[event] += 1
                self.times[event] += times

    def merge(self, other: Coverage) -> None:
        """Those of other seeds."""
        self.seeds += other.seeds
        self.times += other.times

    def never(self) -> list[Event]:
        """What no seed hit, as listed."""
        return [event for event in listed() if not self.seeds[event]]

    def as_json(self) -> list[list[str | int]]:
        """Group, name, seeds and times of each event that was hit."""
        return [[*event, self.seeds[event], self.times[event]] for event in listed() if self.seeds[event]]

    @classmethod
    def from_json(cls, rows: Iterable[tuple[str, str, int, int]]) -> Coverage:
        """What `as_json` gave; events that are no longer listed are left out."""
        known = [row for row in rows if (row[0], row[1]) in NAMES]
        return cls(Counter({(g, n): s for g, n, s, _ in known}), Counter({(g, n): t for g, n, _, t in known}))


def listed() -> Iterator[Event]:
    """All events in the order of the table."""
    for group, names in EVENTS.items():
        yield from ((group, name) for name in names)


def table(coverage: Coverage) -> str:
    """Each event with the seeds that hit it and how often it happened, then what was never hit."""
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
