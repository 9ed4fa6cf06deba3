"""A query and the tuples that it reads, as plain arrays in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import F64, I64
from spojoin.kernels.codes import fold_doubles
from spojoin.model import Column, Query
from spojoin.query.load import parse_query
from spojoin.windows import RowWindow, Window

INEQUALITIES = "l.a > r.a AND l.b < r.b"
#: Tuples that follow the full windows.
MORE = 1 << 18
#: Slides in a window.
SLIDES = 10


@dataclass(frozen=True, slots=True)
class MeasuredJoin:
    """A join to measure. A turn is one tuple of one stream; n turns hold all tuples in order of arrival.

    query: with the window of the first stream; windows: one for each stream; columns: by stream, a and b, float64 each
    codes: by stream, int64 (keys, tuples); stream: int8 (n,), the stream of each turn
    before: int64 (streams, n + 1), tuples of a stream before each turn
    times_us: by stream, int64, for time windows; fill: turns until all windows are full
    """

    query: Query
    windows: tuple[Window, ...]
    columns: tuple[tuple[F64, F64], ...]
    codes: tuple[I64, ...]
    stream: NDArray[np.int8]
    before: I64
    times_us: tuple[I64, ...]
    fill: int

    @property
    def turns(self) -> int:
        """The number of tuples of all streams."""
        return len(self.stream)

    def lower(self, target: int, probe: int, first: int, end: int, upper: I64) -> I64:
        """The lowest index in the window over `target`, for each probe [first, end) of a stream: int64 (m,)."""
        window = self.windows[target]
        if window.needs_time:
            now = self.times_us[probe][first:end]
            return np.minimum(np.searchsorted(self.times_us[target], window.begins(now)), upper)
        return np.maximum(window.begins(upper), 0)

    def batch(self, stream: int, first: int, end: int) -> pa.RecordBatch:
        """Tuples [first, end) of a stream as the engine reads them."""
        a, b = self.columns[stream]
        held: dict[str, F64 | I64] = {"a": a[first:end], "b": b[first:end]}
        if self.windows[0].needs_time:
            held["ts"] = self.times_us[stream][first:end] // 1_000
        return pa.record_batch(held)


def self_join(condition: str, a: F64, b: F64, window: int, slide: int) -> MeasuredJoin:
    """A count window over one stream; the rows beyond the window are measured."""
    query = parse_query(query_text(condition, ("rows", "rows"), window, slide))
    turns = len(a)
    before = np.arange(turns + 1, dtype=np.int64)[None]
    stream = np.zeros(turns, np.int8)
    return MeasuredJoin(query, (query.window,), ((a, b),), (_codes(query, 0, a, b),), stream, before, (), window)


def timed_join(condition: str, a: F64, b: F64, seconds: int, slides: int, rate: int) -> MeasuredJoin:
    """A time window over one stream of `rate` tuples per second, evenly spaced."""
    query = parse_query(_timed_text(condition, seconds, max(seconds // slides, 1)))
    made = self_join(condition, a, b, seconds * rate, 1)
    times_us = np.arange(len(a), dtype=np.int64) * 1_000_000 // rate // 1_000 * 1_000
    fill = min(seconds * rate + seconds * rate // slides, len(a))
    return replace(made, query=query, windows=(query.window,), times_us=(times_us,), fill=fill)


def cross_join(
    condition: str,
    columns: tuple[tuple[F64, F64], tuple[F64, F64]],
    windows: tuple[int, int],
    slides: tuple[int, int],
    share: float = 0.5,
) -> MeasuredJoin:
    """Two streams with a count window each; `share` of the tuples, evenly spread, belong to the first stream."""
    query = parse_query(query_text(condition, ("left", "right"), windows[0], slides[0]))
    stream = _turns(share, tuple(len(a) for a, _ in columns))
    is_second = stream == 1
    second = np.concatenate([[0], np.cumsum(is_second)])
    before = np.stack([np.arange(len(stream) + 1) - second, second]).astype(np.int64)
    full = max(int(np.searchsorted(before[s], windows[s])) for s in (0, 1))
    codes = tuple(_codes(query, s, *columns[s]) for s in (0, 1))
    both = tuple(RowWindow(windows[s], slides[s]) for s in (0, 1))
    return MeasuredJoin(query, both, columns, codes, stream, before, (), min(full, len(stream)))


def _turns(share: float, rows: tuple[int, ...]) -> NDArray[np.int8]:
    turns = int(min(rows[0] / share, rows[1] / (1 - share))) - 2
    firsts = np.floor(np.arange(turns + 1) * share)
    is_second: NDArray[np.bool_] = np.diff(firsts) == 0
    return is_second.astype(np.int8)


def _codes(query: Query, stream: int, a: F64, b: F64) -> I64:
    by_name = {"a": a, "b": b}
    expressions = [key.expression for key in query.streams[stream].keys]
    names = [expression.name for expression in expressions if isinstance(expression, Column)]
    return np.ascontiguousarray(np.stack([fold_doubles(by_name[name]) for name in names]))


def query_text(condition: str, names: tuple[str, str], window: int, slide: int) -> str:
    """The text of a query on columns a and b over a count window; a self join if both names are the same."""
    streams = "\n".join(f"  {name}:\n    schema: {{a: double, b: double}}" for name in dict.fromkeys(names))
    return f"""\
name: figure
streams:
{streams}
sql: |
  SELECT * FROM {names[0]} AS l JOIN {names[1]} AS r
  ON {condition}
  WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
order: arrival
"""


def _timed_text(condition: str, seconds: int, slide_s: int) -> str:
    return f"""\
name: figure
streams:
  rows:
    schema: {{a: double, b: double, ts: timestamp}}
    time: ts
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON {condition}
  WINDOW AS (SLIDE INTERVAL '{slide_s} s' ON '{seconds} s')
order: event_time
"""


def a_slide_is_mutable(window: float) -> dict[str, str]:
    """Options of the published method for a mutable part of one slide, or of the most tuples that it allows."""
    return {"delta": str(min(int(window) // SLIDES, 1 << 20))}
