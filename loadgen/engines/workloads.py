"""The questions asked of the data, and what an engine needs to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loadgen.engines.variants import I64, VARIANTS, Variant

#: Probes after which totals are published: 16, 32, ... 262,144.
MARKS = tuple(16 << k for k in range(15))
#: Windows whose totals are published.
WINDOWS = (100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Probing:
    """One probe stream against the window of one stored stream.

    probes, stored: parity of the row numbers that belong to the stream; None: all rows
    conditions: comparisons of p, the probe, and s, what is stored, as any SQL reads them; all must hold
    times: what a match counts for
    """

    probes: int | None
    stored: int | None
    conditions: tuple[str, ...]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A query. is_self: one stream with itself; else rows with even numbers are l, those with odd ones r."""

    name: str
    about: str
    is_self: bool


QUESTIONS: Mapping[str, Question] = {
    "q1": Question("q1", "cross join: l.a > r.a AND l.b < r.b", is_self=False),
    "q2": Question("q2", "self join: ABS(l.a - r.a) < wa AND ABS(l.b - r.b) < wb", is_self=True),
    "q3": Question("q3", "self join: l.a < r.a AND l.b > r.b", is_self=True),
}


@dataclass(frozen=True)
class EngineWorkload:
    """A question, a variant of the data, and the number of tuples in a window."""

    question: Question
    variant: Variant
    window: int

    @property
    def name(self) -> str:
        """Such as "q1-taxi"."""
        return f"{self.question.name}-{self.variant.name}"

    @property
    def fill(self) -> int:
        """Rows that fill the windows and are not measured; the first probe is row number `fill`."""
        return self.window if self.question.is_self else 2 * self.window

    @cached_property
    def columns(self) -> tuple[I64, I64]:
        """A and b of the fill and of all probes up to the last mark."""
        return self.variant.columns(self.fill + MARKS[-1])

    def sql(self) -> str:
        """The question as spojoin reads it, over streams l and r, or over rows."""
        wide_a, wide_b = self.variant.band
        on = self.question.about.partition(": ")[2].replace("wa", str(wide_a)).replace("wb", str(wide_b))
        left, right = ("rows", "rows") if self.question.is_self else ("evens", "odds")
        return f"SELECT * FROM {left} AS l JOIN {right} AS r ON {on}"

    @property
    def probings(self) -> tuple[Probing, ...]:
        """The question as one or two joins of a probe stream with a window.

        A band on integers is an open interval, which engines can search; being symmetric, it is searched once.
        """
        rises, falls = ("p.a > s.a", "p.b < s.b"), ("p.a < s.a", "p.b > s.b")
        if self.question.name == "q1":
            return Probing(0, 1, rises), Probing(1, 0, falls)
        if self.question.name == "q3":
            return Probing(None, None, falls), Probing(None, None, rises)
        near = (f"s.{column} {sign} {width}" for column, width in zip("ab", self.variant.band, strict=True)
                for sign in (f"> p.{column} -", f"< p.{column} +"))  # fmt: skip
        return (Probing(None, None, tuple(near), times=2),)


def workload(question: str, variant: str, window: int) -> EngineWorkload:
    """By names. Raises KeyError."""
    return EngineWorkload(QUESTIONS[question], VARIANTS[variant], window)


def of_stream(rows: NDArray[np.int64], parity: int | None, first: int = 0) -> NDArray[np.int64]:
    """Those of the rows, numbered from `first`, that belong to a stream."""
    return rows if parity is None else rows[(parity - first) % 2 :: 2]
