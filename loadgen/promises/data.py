"""The workloads as arrays, and the self join that is measured on all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.load import workloads
from spojoin.kernels.codes import fold_doubles
from spojoin.model import Column, Output, Query
from spojoin.query.load import parse_query

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

FLIGHTS = "flights"
#: The time of the first row that has one: 2026-01-01.
FIRST_MS = 1_767_225_600_000
#: What is measured, and its share of matching pairs.
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
        """As the join's codes."""
        return fold_doubles(self.a), fold_doubles(self.b)

    def table(self) -> pa.Table:
        """As an Arrow table with columns a and b."""
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
    """The tuples with two columns more, as single messages have them: a key `id` and a time `ts`, both as text."""
    numbers = np.arange(len(data), dtype=np.int64)
    ids = pc.binary_join_element_wise("order", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0"), "-")
    times = pc.strftime(pa.array(FIRST_MS + numbers, pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
    return pa.table({"id": ids, "a": data.a, "b": data.b, "ts": times})


def keyed_self_join_text(window: int, slide: int, name: str) -> str:
    """`self_join_text` over the rows of `with_keys`."""
    columns_ = "schema: {a: double, b: double}"
    text = self_join_text(window, slide, name=name)
    return text.replace(
        columns_, "schema: {id: string, a: double, b: double, ts: timestamp}\n    key: id\n    time: ts"
    )


def by_slot(query: Query, data: Columns) -> tuple[I64, ...]:
    """The codes of `data` in the order of the query's key columns."""
    codes = dict(zip(("a", "b"), data.codes, strict=True))
    expressions = [key.expression for key in query.streams[0].keys]
    return tuple(codes[expression.name] for expression in expressions if isinstance(expression, Column))


def _flights() -> pa.Table:
    table = workloads.flights().select(["distance", "air_time"]).drop_null()
    return pa.table({"a": pc.cast(table["distance"], pa.float64()), "b": pc.cast(table["air_time"], pa.float64())})
