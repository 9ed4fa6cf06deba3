"""Compiles the kernels once, after installation, so that no service or command has to at its start.

Tiny joins of all shapes reach every kernel. Arrays decoded from messages are read-only, which is another type to the
compiler, so each join runs twice: by reference, and through the wire format; at once, or in turn as a program.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.kernels.common_slice import count_common, sum_common
from spojoin.model import DEFAULT_LAYOUT, Query
from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.router.parse import positions_as_keys
from spojoin.wire.codec import decode, encode

#: Enough batches for merged nodes of several levels, too large for scans, and their split.
TUPLES = 4_000
WINDOW, SLIDES = 2_400, (1_200, 1)
KEYED = ("l.a < r.a", "l.b >= r.b", "l.c = r.c")
CONDITIONS = (
    ("l.a < r.a",),
    ("l.a > r.a", "l.b < r.b"),
    ("ABS(l.a - r.a) < 2", "l.b != r.b"),
    KEYED,
    ("l.a < r.a", "l.b >= r.b", "l.c != r.c", "ABS(l.a - r.b) <= 3"),
)
#: The select lists, clauses and moments of statements with one answer a left row: sums of whole numbers and of others,
#: partners that are chosen, and such as are listed.
ANSWERS = (
    ("SUM(r.b) AS x, SUM(CAST(r.a AS BIGINT)) AS y", "GROUP BY l", "CLOSE"),
    ("SUM(CAST(r.b AS BIGINT)) AS x, MAX(r.b) AS y, ARG_MIN(r.c, r.a) AS z", "GROUP BY l", "ARRIVAL"),
    ("AVG(r.b) AS x, MEDIAN(r.b) AS y, MEDIAN(CAST(r.a AS BIGINT)) AS z", "GROUP BY l", "ARRIVAL"),
    ("r.b AS x", "QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.b, r.seq) <= 3", "CLOSE"),
)
_ANSWER = """
name: warm-up
streams:
  s: {{schema: {{a: double, b: double, c: double}}, time: t}}
sql: >-
  SELECT l.a AS a, {select} FROM s AS l LEFT JOIN s AS r ON {condition} {clauses}
  WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}') EMIT ON {emit}
order: event_time
"""
_QUERY = """
name: warm-up
streams:
  s: {{schema: {{a: double, b: double, c: double}}, time: t}}
  {second}
sql: SELECT * FROM s AS l JOIN {right} AS r ON {condition} WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
order: event_time
output: {output}
{more}
"""


def queries() -> Iterator[Query]:
    """Joins that together reach every kernel."""
    shapes = itertools.product(CONDITIONS, SLIDES, ("count", "pairs"), (True, False), ("", "limit: 2"))
    for condition, slide, output, is_self, limit in shapes:
        if (limit and output != "pairs") or not (is_self or condition is CONDITIONS[1]):
            continue
        yield _query(condition, slide, output, is_self, limit)
    for (select, clauses, emit), condition in itertools.product(ANSWERS, CONDITIONS):
        where = {"condition": " AND ".join(condition), "slide": SLIDES[0], "window": WINDOW}
        yield parse_query(_ANSWER.format(select=select, clauses=clauses, emit=emit, **where))
    # Services run other layouts, too, by a scan or, where there is an equality, by a hash table.
    layouts = [about for about in LAYOUTS.values() if about.is_served and about.name != DEFAULT_LAYOUT]
    for condition, output, layout in itertools.product(CONDITIONS[1:4], ("count", "pairs"), layouts):
        if condition is KEYED or not layout.needs_key:
            yield _query(condition, SLIDES[0], output, True, f"layout: {layout.name}")


def _query(condition: Sequence[str], slide: int, output: str, is_self: bool, more: str) -> Query:
    return parse_query(
        _QUERY.format(
            condition=" AND ".join(condition),
            slide=slide,
            window=WINDOW,
            output=output,
            more=more,
            right="s" if is_self else "u",
            second="" if is_self else "u: {schema: {a: double, b: double, c: double}, time: t}",
        )
    )


def warm_up() -> None:
    """Run all joins, by reference and through the wire format at once."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(run_all, (False, True)))


def run_all(through_wire: bool) -> int:
    """Run all joins; returns how many matches they found.

    Those through the wire format in reverse: what both need has then been compiled by the one that came to it first.
    """
    rng = np.random.default_rng(0)
    batch = pa.record_batch(
        {name: rng.integers(0, 50, TUPLES).astype(float) for name in "abc"} | {"t": np.arange(TUPLES)}
    )
    positions_as_keys(0, np.arange(2), np.arange(2), np.array([False, True]))
    _count_common()
    in_order = list(queries())
    return sum(_run(query, batch, through_wire) for query in (reversed(in_order) if through_wire else in_order))


def _count_common() -> None:
    """What pays only in larger frames, of a process's own arrays and of those that came in a message."""
    for is_writable in (True, False):
        one = np.zeros(1, np.uint16)
        one.setflags(write=is_writable)
        count_common((one, one), (one, one), (one, one), 0, 1)
        sum_common((one, one), (one, one), (one, one), 0, 1, np.ones((1, 1), np.int64))


def _run(query: Query, batch: pa.RecordBatch, through_wire: bool) -> int:
    config = RouterConfig("warm-up", workers=2, frame_tuples=512, batch_tuples=250, credits_frames=UNLIMITED)
    engine = Engine(query, config, transport=(lambda record: decode(encode(record))) if through_wire else None)
    for stream in range(len(query.inputs)):
        for _ in engine.feed(stream, batch):
            pass
    for _ in engine.flush():
        pass
    return engine.matches


if __name__ == "__main__":
    # One after the other: of two at once either may come first to a kernel, and an image has other files each time.
    for is_through_wire in (False, True):
        run_all(is_through_wire)
