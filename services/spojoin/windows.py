"""Kinds of windows: which earlier rows of a stream a row may join. Each kind is one class with all its rules.

A window is measured either in event times or in *places*, which count the rows of its stream. It covers `length` of
either and moves on by `slide`: the window of a row at c holds the earlier rows from ceil(c / slide) * slide - length,
where c is the row's event time, or how many rows of the stream came before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from spojoin.suggest import span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

#: An event time or a place, or int64 (n,) of them.
At = TypeVar("At", int, "I64")


@dataclass(frozen=True, slots=True)
class Window(ABC):
    """`slide` divides `length`.

    needs_time: whether it is measured in event times, which rows then carry; otherwise in places
    holds_all: whether it holds all rows of its side, so no condition needs to narrow it down
    has_versions: whether it holds one version of a table
    sets_order: whether rows are put into the order of event time if the query names no order
    """

    length: int
    slide: int

    needs_time: ClassVar[bool]
    holds_all: ClassVar[bool] = False
    has_versions: ClassVar[bool] = False
    sets_order: ClassVar[bool] = False
    #: The greatest length that a clause may name, as a number and in words.
    LENGTH_MAX: ClassVar[int]
    LENGTH_MAX_TEXT: ClassVar[str]

    # -- where windows lie; exact for arrays as well

    def begins(self, at: At) -> At:
        """The first event time or place in the window of a row at `at`."""
        return -(-at // self.slide) * self.slide - self.length

    def closes(self, at: At) -> At:
        """The last event time, or place, of a row whose window still holds a row at `at`."""
        return (at + self.length) // self.slide * self.slide

    def slide_of(self, at: At) -> At:
        """The number of the slide that `at` lies in."""
        return at // self.slide

    @abstractmethod
    def read_ahead(self, at: int) -> int:
        """The first event time or place from which no row finds a row at `at`."""

    @abstractmethod
    def needed_from(self, newest: int, known: int, ranks: I64) -> int | None:
        """The least rank of a row in a window of a row at `newest` or later; None if such rows may be unknown.

        known: the event time or place from which all rows are known
        ranks: int64 (n,), the ranks of the stream's rows before `newest`
        """

    def over(self, stream: int, *, is_self: bool) -> Window:
        """The window over one of the streams, where they differ."""
        del stream, is_self
        return self

    def share(self, workers: int) -> Window:
        """The share of the window that one of `workers` workers holds if they take rows in turn."""
        del workers
        return self

    @property
    def meets_itself(self) -> bool | None:
        """Whether its bounds hold between a row and itself; None if it has no bounds."""
        return None

    @property
    def is_past(self) -> bool:
        """Whether all partners of left rows come before them."""
        return False

    @property
    def expressed(self) -> tuple[str, ...]:
        """The predicates, as written, that the window itself enforces: no service evaluates them."""
        return ()

    # -- how many rows it holds

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """How many rows a full window holds; None if the kind doesn't define it."""

    @property
    def rows_a_slide(self) -> int | None:
        """By how many rows the window moves; None if the kind doesn't define it."""
        return None

    def has_slides_of(self, rows: int) -> bool:
        """Whether each slide has at least `rows` rows: then batches of that size end with slides, and share a bound."""
        return self.rows_a_slide is not None and self.rows_a_slide >= rows

    def batch_tuples(self, most: int) -> int:
        """How many tuples a batch has: `most`, or an equal part of a slide that has more.

        So frames, which end with batches, are alike, and rows of workers that take them in turn have as much to do.
        """
        if self.rows_a_slide is None or self.rows_a_slide < most:
            return most
        parts = -(-self.rows_a_slide // most)
        return -(-self.rows_a_slide // parts)

    def ends_slide(self, place: int) -> bool:
        """Whether a slide ends just before a place; False if the place alone doesn't determine it."""
        return self.rows_a_slide is not None and place % self.slide == 0

    @abstractmethod
    def fill(self, begin: int, end: int) -> float:
        """How full the window is with the rows of indexes [begin, end): 1 if full."""

    @abstractmethod
    def is_full(self, rows: int, first_us: int | None, last_us: int | None) -> bool:
        """Whether the first `rows` rows of an input, with event times from `first_us` to `last_us`, fill the window."""

    @property
    def open_us(self) -> int:
        """How long after its event time a row may stay in the window; 0 if event time doesn't move the window."""
        return 0

    # -- in words

    @abstractmethod
    def size(self, value: int) -> str:
        """A length or a slide in the syntax of queries."""

    def meaning(self) -> Iterator[tuple[str, str]]:
        """Its named parts, which are equal in queries with the same meaning."""
        yield "window", self._meaning

    @property
    @abstractmethod
    def _meaning(self) -> str: ...

    @property
    @abstractmethod
    def shown(self) -> str:
        """One line about the window for people who watch the services."""

    @abstractmethod
    def rules(self, streams: Sequence[str]) -> Iterator[str]:
        """Sentences that describe which rows the window holds; streams: the names of its streams."""

    @property
    @abstractmethod
    def passing(self) -> str:
        """The event that lets the window pass a row, in words."""

    @property
    def held_by_open(self) -> str:
        """The rows whose partners are held while rows are open, in words."""
        return "two windows of"


class RowWindow(Window):
    """The last rows of the stream, by number of rows."""

    __slots__ = ()
    needs_time = False
    LENGTH_MAX = 1_000_000_000  # at least 16 bytes a tuple: more would exceed one machine's memory
    LENGTH_MAX_TEXT = "1,000,000,000 tuples ('1000M')"

    def read_ahead(self, at: int) -> int:
        return at + self.length + 1

    def needed_from(self, newest: int, known: int, ranks: I64) -> int | None:
        del newest, known
        reach = self.length + self.slide
        ranks = ranks.copy()
        ranks.sort()
        return int(ranks[-reach]) if len(ranks) >= reach else None

    def share(self, workers: int) -> Window:
        return RowWindow(max(self.length // workers, 1), max(self.slide // workers, 1))

    @property
    def rows(self) -> int | None:
        return self.length

    @property
    def rows_a_slide(self) -> int | None:
        return self.slide

    def fill(self, begin: int, end: int) -> float:
        return min(1.0, (end - begin) / self.length)

    def is_full(self, rows: int, first_us: int | None, last_us: int | None) -> bool:
        del first_us, last_us
        return rows >= self.length

    def size(self, value: int) -> str:
        return f"{value:,} tuples" if value != 1 else "1 tuple"

    @property
    def _meaning(self) -> str:
        return f"{self.length} tuples, sliding by {self.slide}"

    @property
    def shown(self) -> str:
        return f"{self.length:,} tuples, moving by {self.slide:,}"

    def rules(self, streams: Sequence[str]) -> Iterator[str]:
        del streams
        begin = f"ceil(c / {self.slide}) * {self.slide} - {self.length}"
        before = "tuples of the stream before the probe"
        yield f"a probe sees earlier tuples with index in the stream >= {begin}, c: {before}"

    @property
    def passing(self) -> str:
        return f"about {self.size(self.length)} have come after it"


class AllRows(RowWindow):
    """All rows of the other side, for two inputs that both end, once both have ended."""

    __slots__ = ()
    holds_all = True

    def __init__(self) -> None:
        super().__init__(self.LENGTH_MAX, 1)


class WholeTable(RowWindow):
    """All rows of a table's current version, regardless of how many rows came before it."""

    __slots__ = ()
    holds_all = True
    has_versions = True

    def __init__(self) -> None:
        super().__init__(2**62, 1)

    def over(self, stream: int, *, is_self: bool) -> Window:
        """The window over a stream; rows of the table don't search the left rows, so that window is minimal."""
        return self if stream else RowWindow(1, 1)

    @property
    def rows(self) -> int | None:
        return None

    def fill(self, begin: int, end: int) -> float:
        return 1.0

    @property
    def _meaning(self) -> str:
        return "the whole table"


class TimeWindow(Window):
    """The rows of the last event times, in microseconds."""

    __slots__ = ()
    needs_time = True
    LENGTH_MAX = 3_653 * 86_400_000_000  # ten years, so that bounds stay far from int64's ends
    LENGTH_MAX_TEXT = "10 years (3653 days)"

    def read_ahead(self, at: int) -> int:
        return at + self.length + self.slide

    def needed_from(self, newest: int, known: int, ranks: I64) -> int | None:
        del ranks
        least = newest - self.length
        return least if known < least else None  # a row that isn't known may have the rank of `known` itself

    @property
    def rows(self) -> int | None:
        return None

    def fill(self, begin: int, end: int) -> float:
        """1 once rows have left the window, otherwise 0."""
        del end
        return float(begin > 0)

    def is_full(self, rows: int, first_us: int | None, last_us: int | None) -> bool:
        del rows
        return first_us is not None and last_us is not None and last_us - first_us >= self.length

    @property
    def open_us(self) -> int:
        return self.length + self.slide

    def size(self, value: int) -> str:
        return span(value)

    @property
    def _meaning(self) -> str:
        return f"{self.length} us of event time, sliding by {self.slide}"

    @property
    def shown(self) -> str:
        return f"{self.length / 1e6:,g} s of event time, moving by {self.slide / 1e6:,g} s"

    def rules(self, streams: Sequence[str]) -> Iterator[str]:
        length, slide = self.size(self.length), self.size(self.slide)
        begin = f"ceil(c / {slide}) * {slide} - {length}"
        yield f"a probe sees earlier tuples with event time >= {begin}, c: event time of the probe"

    @property
    def passing(self) -> str:
        return f"event time has advanced by {self.size(self.length)}" if self.length else "event time has passed it"


@dataclass(frozen=True, slots=True)
class IntervalWindow(TimeWindow):
    """Bounds on the difference of two event times: `lower_us` <= right's - left's <= `upper_us`, in microseconds.

    Each stream has its own window; `length` is that of the longer one.

    held: as in `expressed`
    """

    length: int = field(init=False)
    slide: int = field(init=False)
    lower_us: int
    upper_us: int
    held: tuple[str, ...] = ()

    sets_order = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", max(self.upper_us, -self.lower_us))
        object.__setattr__(self, "slide", 1)

    def over(self, stream: int, *, is_self: bool) -> Window:
        """The later tuple of a pair probes: a right one reaches back by `upper_us`, a left one by -`lower_us`."""
        back = self.length if is_self else -self.lower_us if stream else self.upper_us
        return TimeWindow(max(back, 0), 1)

    def is_exact(self, *, is_self: bool) -> bool:
        """Whether the streams' windows enforce the bounds, so that no predicates on event times are needed.

        A window's near end is the probe's own time, so zero must lie within the bounds. A self join has one window for
        both directions, so both bounds must be equally far from zero.
        """
        return self.lower_us == -self.upper_us if is_self else self.lower_us <= 0 <= self.upper_us

    @property
    def meets_itself(self) -> bool | None:
        return self.lower_us <= 0 <= self.upper_us

    @property
    def is_past(self) -> bool:
        return self.upper_us < 0

    @property
    def expressed(self) -> tuple[str, ...]:
        return self.held

    def meaning(self) -> Iterator[tuple[str, str]]:
        yield "interval", f"{self.lower_us} to {self.upper_us} us"
        yield "window", self._meaning

    @property
    def shown(self) -> str:
        return f"right {self.lower_us / 1e6:+,g} to {self.upper_us / 1e6:+,g} s of left's event time"

    def rules(self, streams: Sequence[str]) -> Iterator[str]:
        ends = f"{span(self.lower_us)} to {span(self.upper_us)}"
        yield f"interval join: the right side's event time minus the left's is {ends}, ends included"
        for stream, name in enumerate(streams):
            length = span(self.over(stream, is_self=len(streams) == 1).length)
            yield f"a tuple of {name} is kept until event time has advanced by {length}"
        if self.held:
            yield f"held by the windows, evaluated by no service: {' AND '.join(self.held)}"

    @property
    def held_by_open(self) -> str:
        reach = sum(self.over(stream, is_self=False).length for stream in range(2))
        return f"{span(reach)} of event time of" if reach else "none of the"
