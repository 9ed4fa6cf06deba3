"""What the methods are put to: the papers' kinds of self join, on generated columns."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.bench.data import Columns, columns
from spojoin.query.load import parse_query
from spojoin.query.model import Query

SLIDES = 10


@dataclass(frozen=True, slots=True)
class Workload:
    """A condition and the data set that it is put to; `paper` is the query's name in the SPO-Join paper."""

    name: str
    paper: str
    about: str
    data: str
    condition: str

    def columns(self, rows: int) -> Columns:
        """The first rows."""
        return columns(self.data, rows)

    def query(self, window: int) -> Query:
        """A self join that counts, over a window of so many tuples in ten slides."""
        return parse_query(
            f"""\
name: figure
streams:
  rows:
    schema: {{a: double, b: double}}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON {self.condition}
  WINDOW AS (SLIDE INTERVAL '{max(1, window // SLIDES)}' ON '{window}')
"""
        )


WORKLOADS = (
    Workload("q3-uniform", "Q3", "two inequalities, 25 % of pairs match", "uniform", "l.a > r.a AND l.b < r.b"),
    Workload("q3-selective", "Q3", "two inequalities, 0.1 % of pairs match", "selective", "l.a > r.a AND l.b < r.b"),
    Workload(
        "q2-band",
        "Q2",
        "two narrow bands, 0.1 % of pairs match",
        "uniform",
        "ABS(l.a - r.a) < 16000 AND ABS(l.b - r.b) < 16000",
    ),
    Workload("equality", "-", "one equality on skewed keys and one inequality", "zipf", "l.a = r.a AND l.b < r.b"),
)
