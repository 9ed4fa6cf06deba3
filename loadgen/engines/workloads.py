"""The workloads. Questions differ in the state that a probe's partners give, and in its share of the total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.engines.variants import VARIANTS, Variant
from spojoin.arrays import I64


class Gathered(Enum):
    """The state of a probe, as SQL over its partners s; 0 without partners."""

    COUNT = "count(*)"
    SUM = "sum(s.c)"
    #: The newest partner's number, plus one.
    LATEST = "max(s.seq) + 1"
    #: A row for each partner; the state is the sum of their c.
    LIST = "s.c"


class Counted(Enum):
    """A probe's share of the total."""

    #: The state itself.
    STATE = "state"
    #: At least one: an outer join's rows.
    ROWS = "rows"
    #: One if the state is below a bound.
    BELOW = "below"
    #: c of the row with this number, less one.
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """below: the bound of BELOW; 0 if there is none."""

    gathered: Gathered
    counted: Counted
    below: int = 0

    def gather(self, states: I64, probes: I64, values: I64) -> None:
        """Add values (m,) of partners to the states (n,) at the positions `probes` (m,)."""
        (np.maximum if self.gathered is Gathered.LATEST else np.add).at(states, probes, values)

    def total(self, states: I64, c: I64 | None = None) -> int:
        """The total of probes with these states, int64 (n,); c: of all rows, if values count."""
        if self.counted is Counted.VALUE:
            assert c is not None, "questions whose values count read c"
            return int(c[states[states > 0] - 1].sum())
        if self.counted is Counted.BELOW:
            return int(np.count_nonzero(states < self.below))
        return int((np.maximum(states, 1) if self.counted is Counted.ROWS else states).sum())


#: Probes after which totals are published: 16, 32, ... 262,144.
MARKS = tuple(16 << k for k in range(15))
#: Windows whose totals are published.
WINDOWS = (100, 1_000, 10_000, 100_000, 1_000_000)
#: q8 gives the rows with fewer partners than this part of the window.
FEW_OF = 20


@dataclass(frozen=True, slots=True)
class Probing:
    """One probe stream against the window of one stored stream.

    probes, stored: parity of the row numbers that belong to the stream; None: all rows
    conditions: comparisons in SQL of the probe p and a stored row s; all must hold
    times: the number of times that a match counts
    """

    probes: int | None
    stored: int | None
    conditions: tuple[str, ...]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A query. Its texts name the workload's numbers in braces.

    sql: the statement as spojoin reads it, over streams l and r, or over rows
    is_self: whether one stream joins itself; otherwise rows with even numbers are l, and rows with odd numbers r
    columns: the columns that it reads
    conditions: of the probe p and a stored row s, if each row, as l, gets one answer about the rows before it
    gathered, counted: the way in which a probe's partners add to the total
    is_narrow: a band or an equality leaves few candidates of a window
    key, overlap: if the conditions are that two intervals overlap: the column that must be equal, if any, and the
    beginnings and exclusive ends of the intervals of p and s
    """

    name: str
    about: str
    sql: str
    is_self: bool = True
    columns: tuple[str, ...] = ("a", "b")
    conditions: tuple[str, ...] = ()
    gathered: Gathered = Gathered.COUNT
    counted: Counted = Counted.STATE
    is_narrow: bool = False
    key: str = ""
    overlap: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether each row gets one answer."""
        return bool(self.conditions)

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows whose totals are published; not the largest if pairs are listed, which would be too many."""
        return WINDOWS[:-1] if self.gathered is Gathered.LIST else WINDOWS


_BAND = "ABS(l.a - r.a) < {wa} AND ABS(l.b - r.b) < {wb}"
_DOMINATED = ("p.a < s.a", "p.b > s.b")
_SHIFTED = ("p.a + {da} < s.a", "p.b - {db} > s.b")
_NEWEST = ("p.k = s.k", "p.a + {rise} < s.a")
_NEAR = ("p.k = s.k", "s.a > p.a - {near}", "s.a < p.a + {near}")
_OVERLAPPING = ("p.a < s.e", "p.e > s.a")


def _asking(name: str, about: str, sql: str, conditions: tuple[str, ...], **more: Any) -> Question:  # noqa: ANN401
    on = " AND ".join(conditions).replace("p.", "l.").replace("s.", "r.")
    shown = on.replace("{", "").replace("}", "")
    return Question(name, f"{about}: {shown}", sql.replace("<on>", on), conditions=conditions, **more)


def _listing(name: str, how: str, conditions: tuple[str, ...], key: str, overlap: tuple[str, ...]) -> Question:
    """A question about overlapping intervals; key, overlap: as in `Question`."""
    return _asking(
        name,
        f"rows, listed, of a left join {how}",
        "SELECT l.ts, r.ts AS other, r.c AS found FROM rows AS l LEFT JOIN rows AS r ON <on>",
        conditions,
        columns=("a", "c", key or "e"),
        gathered=Gathered.LIST,
        is_narrow=True,
        key=key,
        overlap=overlap,
    )


_ALL = (
    Question(
        "q1",
        "cross join: l.a > r.a AND l.b < r.b",
        "SELECT * FROM evens AS l JOIN odds AS r ON l.a > r.a AND l.b < r.b",
        is_self=False,
    ),
    Question(
        "q2",
        "self join: ABS(l.a - r.a) < wa AND ABS(l.b - r.b) < wb",
        f"SELECT * FROM rows AS l JOIN rows AS r ON {_BAND}",
        is_narrow=True,
    ),
    Question(
        "q3", "self join: l.a < r.a AND l.b > r.b", "SELECT * FROM rows AS l JOIN rows AS r ON l.a < r.a AND l.b > r.b"
    ),
    _asking(
        "q4",
        "rows without partner",
        "SELECT 1 AS found FROM rows AS l ANTI JOIN rows AS r ON <on>",
        _SHIFTED,
        counted=Counted.BELOW,
    ),
    _asking(
        "q5",
        "rows of a left join",
        "SELECT COUNT(*) AS found FROM rows AS l LEFT JOIN rows AS r ON <on> GROUP BY l",
        _SHIFTED,
        counted=Counted.ROWS,
    ),
    _asking(
        "q6",
        "sums of the partners' c",
        "SELECT SUM(r.c) AS found FROM rows AS l JOIN rows AS r ON <on> GROUP BY l",
        _DOMINATED,
        columns=("a", "b", "c"),
        gathered=Gathered.SUM,
    ),
    _asking(
        "q7",
        "c of the newest partner",
        "SELECT r.c AS found FROM rows AS l ASOF JOIN rows AS r MATCH_CONDITION (l.ts >= r.ts) ON <on>",
        _NEWEST,
        columns=("a", "c", "k"),
        gathered=Gathered.LATEST,
        counted=Counted.VALUE,
        is_narrow=True,
    ),
    _asking(
        "q8",
        "rows with fewer than W / 20 partners",
        "SELECT 1 AS found FROM rows AS l LEFT JOIN rows AS r ON <on> GROUP BY l HAVING COUNT(r.a) < {few}",
        _DOMINATED,
        counted=Counted.BELOW,
    ),
    _listing("q9", "by a key and an interval", _NEAR, "k", ("p.a - {near} + 1", "p.a + {near}", "s.a", "s.a + 1")),
    _listing("q10", "of overlapping intervals", _OVERLAPPING, "", ("p.a", "p.e", "s.a", "s.e")),
)
QUESTIONS: Mapping[str, Question] = {question.name: question for question in _ALL}


@dataclass(frozen=True)
class EngineWorkload:
    """A question, a variant of the data, and the number of tuples in a window."""

    question: Question
    variant: Variant
    window: int

    @property
    def name(self) -> str:
        """A name of the form "q1-taxi"."""
        return f"{self.question.name}-{self.variant.name}"

    @property
    def fill(self) -> int:
        """Rows that fill the windows and are not measured; the first probe is row number `fill`."""
        return self.window if self.question.is_self else 2 * self.window

    @property
    def few(self) -> int:
        """q8 gives the rows with fewer partners than this."""
        return max(1, self.window // FEW_OF)

    @property
    def answer(self) -> ProbeAnswer:
        """The way in which a probe's partners add to the total."""
        below = {"q4": 1, "q8": self.few}.get(self.question.name, 0)
        return ProbeAnswer(self.question.gathered, self.question.counted, below)

    @cached_property
    def columns(self) -> Mapping[str, I64]:
        """The question's columns of the fill and of all probes up to the last mark."""
        rows = self.fill + MARKS[-1]
        drawn = dict(zip("ab", self.variant.columns(rows), strict=True))
        if not drawn.keys() >= set(self.question.columns):
            drawn |= zip("ck", self.variant.further(rows), strict=True)
            drawn["e"] = self.variant.ends(drawn["a"], drawn["c"])
        return {name: drawn[name] for name in self.question.columns}

    def sql(self) -> str:
        """The question as spojoin reads it."""
        return self._filled(self.question.sql)

    @property
    def overlap(self) -> tuple[str, ...]:
        """The question's `overlap`."""
        return tuple(map(self._filled, self.question.overlap))

    def _filled(self, text: str) -> str:
        (wa, wb), (da, db) = self.variant.band, self.variant.shift
        rise, near = self.variant.rise, self.variant.near
        return text.format(wa=wa, wb=wb, da=da, db=db, rise=rise, near=near, few=self.few)

    @property
    def probings(self) -> tuple[Probing, ...]:
        """The question as one or two joins of a probe stream with a window.

        A band on integers is an open interval, which engines can search; being symmetric, it is searched once.
        """
        rises, falls = ("p.a > s.a", "p.b < s.b"), ("p.a < s.a", "p.b > s.b")
        if self.question.asks:
            return (Probing(None, None, tuple(map(self._filled, self.question.conditions))),)
        if self.question.name == "q1":
            return Probing(0, 1, rises), Probing(1, 0, falls)
        if self.question.name == "q3":
            return Probing(None, None, falls), Probing(None, None, rises)
        near = (f"s.{column} {sign} {width}" for column, width in zip("ab", self.variant.band, strict=True)
                for sign in (f"> p.{column} -", f"< p.{column} +"))  # fmt: skip
        return (Probing(None, None, tuple(near), times=2),)


def workload(question: str, variant: str, window: int) -> EngineWorkload:
    """The workload with these names. Raises KeyError."""
    return EngineWorkload(QUESTIONS[question], VARIANTS[variant], window)


def of_stream(rows: NDArray[np.int64], parity: int | None, first: int = 0) -> NDArray[np.int64]:
    """The rows, numbered from `first`, that belong to a stream."""
    return rows if parity is None else rows[(parity - first) % 2 :: 2]
