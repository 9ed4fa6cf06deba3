"""A statement as users write it, over the measured columns and four more, with filters and an equality of texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.promises.data import Columns, columns
from loadgen.window import window_of

WORKLOAD = "uniform"
#: Distinct texts.
SYMBOLS = 1_000
RANGES = "l.a > r.a AND l.b < r.b"
SCHEMA = "{a: double, b: double, s: string, k: long, p: double, v: int}"
LEAST_P, NOT_V = 0.01, 7
#: Both sides have the same filters, so that they share one window.
WHERE = " AND ".join(f"{side}.p > {LEAST_P} AND {side}.v <> {NOT_V}" for side in ("l", "r"))


@dataclass(frozen=True, slots=True)
class StatementRows:
    """n rows of the measured columns and four more: s, p and v of the statement, and k, the number of the text."""

    measured: Columns
    k: NDArray[np.int64]
    p: NDArray[np.float64]
    v: NDArray[np.int32]

    def table(self) -> pa.Table:
        """As an Arrow table with the columns of SCHEMA."""
        texts = pa.array([f"SYM{number:04d}" for number in range(SYMBOLS)]).take(pa.array(self.k))
        return self.measured.table().append_column("s", texts).append_column("k", pa.array(self.k)).append_column(
            "p", pa.array(self.p)
        ).append_column("v", pa.array(self.v))  # fmt: skip

    @property
    def passing(self) -> StatementRows:
        """The rows that pass the filters."""
        rows = np.flatnonzero((self.p > LEAST_P) & (self.v != NOT_V))
        measured = Columns(self.measured.a[rows], self.measured.b[rows])
        return StatementRows(measured, self.k[rows], self.p[rows], self.v[rows])


def statement_rows(rows: int, workload: str = WORKLOAD) -> StatementRows:
    """The first rows of a workload; the four additional columns are uniform."""
    random = np.random.default_rng(13)
    return StatementRows(
        columns(workload, rows),
        random.integers(0, SYMBOLS, rows),
        random.random(rows),
        random.integers(0, 1_000, rows).astype(np.int32),
    )


def counting_text(name: str, on: str, window: int, where: str = "") -> str:
    """A self join of the one stream `rows` that counts, as YAML; its slide is a tenth of the window."""
    return f"""\
name: {name}
streams:
  rows:
    schema: {SCHEMA}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON {on}
  {f"WHERE {where}" if where else ""}
  WINDOW AS (SLIDE INTERVAL '{window // 10}' ON '{window}')
order: arrival
output: count
"""


def featured_text(name: str, window: int) -> str:
    """The statement with filters and an equality of texts."""
    return counting_text(name, f"l.s = r.s AND {RANGES}", window, WHERE)


def summing_text(name: str, window: int) -> str:
    """A self join of `rows` that answers each left row with the sum of its partners' k, as YAML."""
    return f"""\
name: {name}
streams:
  rows:
    schema: {SCHEMA}
sql: |
  SELECT l.seq AS n, SUM(r.k) AS found FROM rows AS l LEFT JOIN rows AS r
  ON {RANGES}
  GROUP BY l
  WINDOW AS (SLIDE INTERVAL '{window // 10}' ON '{window}')
  EMIT ON ARRIVAL
order: arrival
"""


def check_summed(rows: StatementRows, window: int, found: pa.Table, probes: int) -> None:
    """Compare some answers of `summing_text`, spread over all, with a scan. Raises AssertionError."""
    slide = window // 10
    a, b = rows.measured.a, rows.measured.b
    for row in np.linspace(0, found.num_rows - 1, probes, dtype=np.int64).tolist():
        seq, answer = found["n"][row].as_py(), found["found"][row].as_py()
        inside = window_of(seq, window, slide)
        partners = (a[inside] < a[seq]) & (b[inside] > b[seq])
        expected = int(rows.k[inside][partners].sum()) if partners.any() else None
        if answer != expected:
            raise AssertionError(f"left row {seq} has the sum {answer}, a scan finds {expected}")


def check_featured(rows: StatementRows, window: int, counts: pa.Table, probes: int) -> None:
    """Compare some results, spread over all, with a scan of the passing rows. Raises AssertionError.

    counts: columns seq, as_left and as_right
    """
    slide = window // 10
    passing = rows.passing
    for row in np.linspace(0, counts.num_rows - 1, probes, dtype=np.int64).tolist():
        found = tuple(counts[name][row].as_py() for name in ("seq", "as_left", "as_right"))
        seq = found[0]
        inside = window_of(seq, window, slide)
        a, b = passing.measured.a, passing.measured.b
        same = passing.k[inside] == passing.k[seq]
        left = same & (a[inside] < a[seq]) & (b[inside] > b[seq])
        right = same & (a[inside] > a[seq]) & (b[inside] < b[seq])
        expected = seq, int(np.count_nonzero(left)), int(np.count_nonzero(right))
        if found != expected:
            raise AssertionError(f"a result is (seq, as left, as right) {found}, a scan finds {expected}")
