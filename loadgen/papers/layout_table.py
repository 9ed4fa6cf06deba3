"""Measure every layout on one self join of skewed keys, and print the table of the papers' README.

python -m loadgen.papers.layout_table [--workers 4] [--window 20000] [--tuples 100000] [--method scan]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from loadgen.errors import one_sentence
from loadgen.papers.layouts.catalog import LAYOUTS
from loadgen.promises.data import Columns, columns
from spojoin.embedded.run import engine_for
from spojoin.evaluation.choices import chosen_layout, method
from spojoin.model import Query
from spojoin.query.load import parse_query

SLIDES = 10
#: Skewed keys set the layouts apart that place tuples by key.
DATA = "zipf"
HEADS = (
    "layout",
    "comparisons, most to mean",
    "std of comparisons",
    "stored, most to mean",
    "messages a tuple",
    "bytes a tuple",
    "log bytes a tuple",
    "topics' bytes a tuple",
    "memory, bytes",
    "completeness",
    "slowest worker, ms a frame, p50 (p99)",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all layouts, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--window", type=int, default=20_000)
    parser.add_argument("--tuples", type=int, default=100_000)
    parser.add_argument("--method", default="scan", help="how workers search, in all layouts but batch")
    options = parser.parse_args(arguments)
    with one_sentence(is_debug=False):
        for line in _table(options.workers, options.window, options.tuples, options.method):
            print(line, flush=True)


def _table(workers: int, window: int, tuples: int, search: str) -> Iterator[str]:
    yield f"| {' | '.join(HEADS)} |"
    yield "| --- " * len(HEADS) + "|"
    data, query = columns(DATA, tuples), replace(_query(window), method=method(search, {}))
    for name in LAYOUTS:
        chosen = chosen_layout(_query(window) if name == "batch" else query, name, workers, ())
        yield f"| `{name}` | {' | '.join(_cells(_measured(chosen, data), tuples))} |"


def _query(window: int) -> Query:
    return parse_query(f"""\
name: layouts
streams:
  rows:
    schema: {{a: double, b: double}}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON l.a = r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '{max(1, window // SLIDES)}' ON '{window}')
""")


def _measured(query: Query, data: Columns) -> dict[str, Any]:
    # The first, shorter part compiles the kernels.
    for part in (data[: len(data) // 10], data):
        engine = engine_for(query, threads=1, accounts=True)
        for batch in part.table().to_batches(max_chunksize=8_192):
            list(engine.feed(0, batch))
        list(engine.flush())
    return engine.layout_measures()


def _cells(measures: dict[str, Any], tuples: int) -> Iterator[str]:
    yield f"{measures['comparisons_imbalance']:.3f}"
    yield f"{measures['comparisons_std']:,.0f}"
    yield f"{measures['stored_imbalance']:.3f}"
    for name in ("messages", "bytes", "log_bytes"):
        yield f"{measures[name] / tuples:,.1f}"
    yield f"{sum(topic['bytes'] for topic in measures['topics'].values()) / tuples:,.1f}"
    yield f"{measures['memory_bytes'] + measures.get('mutable', {}).get('bytes_max', 0):,}"
    yield f"{measures['completeness']:.3f}"
    yield f"{measures['slowest_worker_ms']['p50']:,.1f} ({measures['slowest_worker_ms']['p99']:,.1f})"


if __name__ == "__main__":
    main()
