"""Measure the patterns of PPOIJ on an interval join with a skewed key, and print a table.

python -m loadgen.papers.patterns [--workers 8] [--keys 100] [--skew 0.35 1.0] [--interval-ms 5000] [--tuples 200000]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import pstdev
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.errors import one_sentence
from loadgen.papers.layouts.costs import imbalance
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.evaluation.choices import chosen_layout
from spojoin.model import Query
from spojoin.query.load import parse_query

PATTERNS = (("kp", ()), ("dp", ()), ("hp", ()), ("hp", ("balance=tuples",)))
#: Rows of one stream fed at once, one per millisecond.
PIECE = 1_000
SEED = 20
HEADS = (
    "keys",
    "layout",
    "stored, most to mean",
    "examined, most to mean",
    "std of examined",
    "messages a tuple",
    "bytes a tuple",
    "memory, bytes",
    "completeness",
    "slowest worker, ms a frame, p50 (p99)",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--skew", type=float, nargs="+", default=[0.35, 1.0], help="exponents of Zipf's law")
    parser.add_argument("--interval-ms", type=int, default=5_000, help="how far apart two event times may be")
    parser.add_argument("--tuples", type=int, default=200_000)
    asked = parser.parse_args(arguments)
    with one_sentence(is_debug=False):
        for line in _table(asked):
            print(line, flush=True)


def _table(asked: argparse.Namespace) -> Iterator[str]:
    yield f"| {' | '.join(HEADS)} |"
    yield "| --- " * len(HEADS) + "|"
    query = _query(asked.interval_ms)
    for skew in asked.skew:
        for name, options in PATTERNS:
            chosen = chosen_layout(query, name, asked.workers, options)
            _run(chosen, _pieces(skew, asked.keys, min(asked.tuples, 10 * PIECE)))  # for the kernels, compiled once
            engine, early = _run(chosen, _pieces(skew, asked.keys, asked.tuples), asked.tuples // 2)
            cells = _cells(engine.layout_measures(), early, engine.tuples)
            yield f"| Zipf {skew:g} | `{' '.join((name, *options))}` | {' | '.join(cells)} |"


def _query(interval_ms: int) -> Query:
    streams = "\n".join(f"  {name}: {{schema: {{k: long, x: int, at: timestamp}}, time: at}}" for name in "ab")
    return parse_query(f"""\
name: patterns
streams:
{streams}
sql: |
  SELECT * FROM a AS l JOIN b AS r
  ON l.k = r.k AND l.x < r.x AND ABS(l.at - r.at) <= INTERVAL '{interval_ms} ms'
""")


def _pieces(skew: float, keys: int, tuples: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of both streams, half of `tuples` each; the frequency of the k-th most frequent key is ~ k**-skew."""
    rng, shares = np.random.default_rng(SEED), np.arange(1, keys + 1, dtype=np.float64) ** -skew
    names = rng.permutation(keys)
    for begin in range(0, tuples // 2, PIECE):
        for stream in (0, 1):
            drawn = names[rng.choice(keys, PIECE, p=shares / shares.sum())]
            times = pa.array(np.arange(begin, begin + PIECE), pa.timestamp("ms"))
            yield stream, pa.record_batch({"k": drawn, "x": rng.integers(0, 9, PIECE), "at": times})


def _run(query: Query, pieces: Iterator[tuple[int, pa.RecordBatch]], half: int = 0) -> tuple[Engine, dict[str, Any]]:
    """The engine after all rows, and the cost of its layout at `half` of the tuples."""
    engine, early = engine_for(query, threads=1, accounts=True), None
    for stream, rows in pieces:
        list(engine.feed(stream, rows))
        if early is None and engine.tuples >= half:
            early = engine.layout_measures()
    list(engine.flush())
    return engine, early or engine.layout_measures()


def _cells(whole: dict[str, Any], early: dict[str, Any], tuples: int) -> Iterator[str]:
    """Loads of the second half, long after the calibration; memory, completeness and times of the whole run."""
    both = list(zip(whole["per_worker"], early["per_worker"], strict=True))
    late = {name: [now[name] - then[name] for now, then in both] for name in ("stored", "examined")}
    yield f"{imbalance(late['stored']):.3f}"
    yield f"{imbalance(late['examined']):.3f}"
    yield f"{pstdev(late['examined']):,.0f}"
    for name in ("messages", "bytes"):
        yield f"{whole[name] / tuples:,.1f}"
    yield f"{whole['memory_bytes']:,}"
    yield f"{whole['completeness']:.3f}"
    yield f"{whole['slowest_worker_ms']['p50']:,.1f} ({whole['slowest_worker_ms']['p99']:,.1f})"


if __name__ == "__main__":
    main()
