"""The workloads as arrays, the self join on all of them, and its expected counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.load import workloads
from loadgen.window import window_of
from spojoin.arrays import F64, I64
from spojoin.kernels.codes import fold_doubles
from spojoin.model import Column, Output, Query
from spojoin.query.load import parse_query

FLIGHTS = "flights"
#: The time of the first row that has one: 2026-01-01.
FIRST_MS = 1_767_225_600_000
#: The measured workloads; the shares of matching pairs follow.
NAMES = ("uniform", "taxi", "selective", FLIGHTS)
ABOUT = {
    "uniform": "uniform 2-decimal doubles, 25 % match",
    "taxi": "correlated columns as of taxi rides, 7 % match",
    "selective": "strongly correlated columns, 0.1 % match",
    FLIGHTS: "distance and air time of the flights, looped",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The two compared columns of n tuples in arrival order, float64 (n,)."""

    a: F64
    b: F64

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: slice) -> Columns:
        return Columns(self.a[rows], self.b[rows])

    @property
    def codes(self) -> tuple[I64, I64]:
        """The columns as the join's codes."""
        return fold_doubles(self.a), fold_doubles(self.b)

    def table(self) -> pa.Table:
        """The columns as an Arrow table with columns a and b."""
        return pa.table({"a": self.a, "b": self.b})


def columns(name: str, rows: int) -> Columns:
    """The first `rows` tuples of a workload; the flights are repeated as needed."""
    table = _flights() if name == FLIGHTS else workloads.generate(name, rows)
    a, b = (table[column].to_numpy() for column in ("a", "b"))
    return Columns(np.resize(a, rows), np.resize(b, rows))


def self_join(window: int, slide: int, output: Output = Output.COUNT, name: str = "bench") -> Query:
    """`l.a > r.a AND l.b < r.b` over a window of `window` tuples."""
    return parse_query(self_join_text(window, slide, output, name))


def self_join_text(window: int, slide: int, output: Output = Output.COUNT, name: str = "bench") -> str:
    """The same query as YAML; its one stream is called `rows`."""
    return f"""\
name: {name}
streams:
  rows:
    schema: {{a: double, b: double}}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
order: arrival
output: {output}
"""


def with_keys(data: Columns) -> pa.Table:
    """The tuples with two more columns, as in single messages: a key `id` and a time `ts`, both as text."""
    numbers = np.arange(len(data), dtype=np.int64)
    ids = pc.binary_join_element_wise("order", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0"), "-")
    times = pc.strftime(pa.array(FIRST_MS + numbers, pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
    return pa.table({"id": ids, "a": data.a, "b": data.b, "ts": times})


def by_slot(query: Query, data: Columns) -> tuple[I64, ...]:
    """The codes of `data` in the order of the query's key columns."""
    codes = dict(zip(("a", "b"), data.codes, strict=True))
    expressions = [key.expression for key in query.streams[0].keys]
    return tuple(codes[expression.name] for expression in expressions if isinstance(expression, Column))


def _flights() -> pa.Table:
    table = workloads.flights().select(["distance", "air_time"]).drop_null()
    return pa.table({"a": pc.cast(table["distance"], pa.float64()), "b": pc.cast(table["air_time"], pa.float64())})


def expected_counts(data: Columns, seq: int, window: int, slide: int) -> tuple[int, int]:
    """Matches of tuple `seq` of a self join as left and as right side."""
    inside = window_of(seq, window, slide)
    a, b = data.a[inside], data.b[inside]
    x, y = data.a[seq], data.b[seq]
    return int(np.count_nonzero((a < x) & (b > y))), int(np.count_nonzero((a > x) & (b < y)))


def check_counts(data: Columns, window: int, slide: int, counts: pa.Table, probes: int) -> None:
    """Compare some rows of results, spread over all, with a scan. Raises AssertionError.

    counts: columns seq, as_left and as_right
    """
    for row in np.linspace(0, counts.num_rows - 1, probes, dtype=np.int64).tolist():
        found = {name: counts[name][row].as_py() for name in ("seq", "as_left", "as_right")}
        expected = expected_counts(data, found["seq"], window, slide)
        if (found["as_left"], found["as_right"]) != expected:
            raise AssertionError(f"row {row} of the results is {found}, a scan finds as left and right {expected}")
