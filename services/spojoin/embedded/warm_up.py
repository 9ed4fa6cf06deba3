"""Compiles the kernels once, after installation, so that services and commands needn't compile them when they start.

Tiny joins of all shapes reach every kernel. Arrays decoded from messages are read-only, which is another type to the
compiler, so each join runs twice: by reference, and through the wire format; at once, or in turn as a program.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.kernels.common_slice import count_common, sum_common
from spojoin.model import Query
from spojoin.query.load import parse_query
from spojoin.reading.parsing import positions_as_keys
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.sink.key_share import partitions_of_keys
from spojoin.wire.codec import decode, encode

#: Rows of a join: enough for nodes merged at several levels and split, which are too large to be scanned.
TUPLES = 4_000
#: How many processes may compile at the same time.
PROCESSES = 8
WINDOW, SLIDES = 2_400, (1_200, 1)
KEYED = ("l.a < r.a", "l.b >= r.b", "l.c = r.c")
CONDITIONS = (
    ("l.a < r.a",),
    ("l.a > r.a", "l.b < r.b"),
    ("ABS(l.a - r.a) < 2", "l.b != r.b"),
    KEYED,
    ("l.a < r.a", "l.b >= r.b", "l.c != r.c", "ABS(l.a - r.b) <= 3"),
)
#: The select lists, clauses and moments of statements with one answer per left row: sums of integers and of other
#: numbers, chosen partners, and listed partners.
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


def warm_up(show: Callable[[int, int], None] = lambda done, of: None) -> None:
    """Run all joins, by reference and through the wire format, on all cores; `show` gets the number of joins so far.

    Processes by reference begin at the front, the others at the back, so that few kernels are compiled twice. More than
    PROCESSES would compile many twice.
    """
    count = len(_queries())
    turns = [(at, through_wire) for i in range(count) for at, through_wire in ((i, False), (count - 1 - i, True))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ProcessPoolExecutor(min(PROCESSES, max(2, cores)), get_context("spawn"), _run_others) as pool:
        runs = [pool.submit(_run_one, *turn) for turn in turns]
        for done, run in enumerate(as_completed(runs), 1):
            run.result()
            show(done, len(runs))


def run_all(through_wire: bool) -> int:
    """Run all joins in order, those through the wire format in reverse; returns how many matches they found."""
    _run_others()
    in_order = range(len(_queries()))
    return sum(_run_one(at, through_wire) for at in (reversed(in_order) if through_wire else in_order))


@cache
def _queries() -> tuple[Query, ...]:
    return tuple(queries())


def _run_others() -> None:
    """Run the kernels that no join of this size reaches."""
    positions_as_keys(0, np.arange(2), np.arange(2), np.array([False, True]))
    partitions_of_keys([b"key"], 2, 0)
    _count_common()


def _count_common() -> None:
    """Run the kernels that are used only for larger frames, with a process's own arrays and with decoded ones."""
    for is_writable in (True, False):
        one = np.zeros(1, np.uint16)
        one.setflags(write=is_writable)
        count_common((one, one), (one, one), (one, one), 0, 1)
        sum_common((one, one), (one, one), (one, one), 0, 1, np.ones((1, 1), np.int64))


def _run_one(at: int, through_wire: bool) -> int:
    """Run one of the joins on random rows; returns how many matches it found."""
    query, rng = _queries()[at], np.random.default_rng(0)
    batch = pa.record_batch(
        {name: rng.integers(0, 50, TUPLES).astype(float) for name in "abc"} | {"t": np.arange(TUPLES)}
    )
    config = RouterConfig("warm-up", workers=2, frame_tuples=512, batch_tuples=250, credits_frames=UNLIMITED)
    engine = Engine(query, config, transport=(lambda record: decode(encode(record))) if through_wire else None)
    for stream in range(len(query.inputs)):
        for _ in engine.feed(stream, batch):
            pass
    for _ in engine.flush():
        pass
    return engine.matches


if __name__ == "__main__":
    # Not at the same time: if either could reach a kernel first, each build of an image would have different files.
    for is_through_wire in (False, True):
        run_all(is_through_wire)
