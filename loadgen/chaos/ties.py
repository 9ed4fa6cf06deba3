"""Rows with ties everywhere, a self join made for them, and its counts by the definition.

The join is a plain loop over probes, each compared with the whole window. Row number `seq` of the stream is tuple
`seq` of the join, since there is one input of one partition in arrival order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.chaos.listener import HeardAnswers
from loadgen.load.load_streams import LoadStream, LoadWorkload, drawn
from loadgen.window import window_of
from spojoin.arrays import I64

STREAM, KEY = "readings", "id"
#: Distinct values of a column: few, so that most comparisons meet ties.
VALUES = 60


@dataclass(frozen=True, slots=True)
class TiedJoin:
    """The join `draw < draw AND cooling >= cooling` of readings whose columns have few distinct values.

    window, slide: of the join, in tuples; seed: of the rows
    version: of the query; versions count as different queries but have the same answers, since all rows pass their
    filter
    """

    name: str
    window: int
    slide: int
    seed: int = 0
    values: int = VALUES
    version: int = 0

    @property
    def text(self) -> str:
        """The query as YAML."""
        return f"""\
name: {self.name}
streams:
  {STREAM}:
    schema: {{draw: double, cooling: double}}
    key: {KEY}
sql: |
  SELECT * FROM {STREAM} AS l JOIN {STREAM} AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling{self._filter}
  WINDOW AS (SLIDE INTERVAL '{self.slide}' ON '{self.window}')
order: arrival
output: count
"""

    @property
    def _filter(self) -> str:
        return f"\n  WHERE l.draw > -{self.version} AND r.draw > -{self.version}" if self.version else ""

    def workload(self) -> LoadWorkload:
        """The rows as a load."""
        return LoadWorkload(self.name, "few distinct values", f"{self.name}.yaml", (self.stream(),))

    def stream(self) -> LoadStream:
        """The rows, each a function of seed and position."""

        def draw(rng: np.random.Generator, n: int) -> Mapping[str, NDArray[np.float64]]:
            draw, cooling = rng.integers(0, self.values, (2, n)).astype(np.float64)
            return {"draw": draw / 4, "cooling": cooling}

        return drawn(STREAM, KEY, draw)

    def begin(self, seq: int) -> int:
        """The first tuple of the window of tuple `seq`."""
        return window_of(seq, self.window, self.slide).start


class TiedRows:
    """The rows of a `TiedJoin` from number `first` on: draw and cooling, float64 (n,)."""

    def __init__(self, join: TiedJoin, stream: LoadStream, first: int, rows: int) -> None:
        batch = stream.batch(first, rows, join.seed)
        self._join = join
        self._first = first
        self._draw = batch["draw"].to_numpy()
        self._cooling = batch["cooling"].to_numpy()

    def counts(self, seqs: I64) -> tuple[I64, I64]:
        """Match counts of tuples as left and as right side, int64 (m,) each, compared with the whole window."""
        as_left, as_right = np.empty((2, len(seqs)), np.int64)
        for number, seq in enumerate(seqs.tolist()):
            at = seq - self._first
            window = slice(self._join.begin(seq) - self._first, at)
            draw, cooling = self._draw[window], self._cooling[window]
            as_left[number] = np.count_nonzero((self._draw[at] < draw) & (self._cooling[at] >= cooling))
            as_right[number] = np.count_nonzero((draw < self._draw[at]) & (cooling >= self._cooling[at]))
        return as_left, as_right

    def contradict(self, seqs: I64, as_left: I64, as_right: I64) -> NDArray[np.bool_]:
        """Whether these counts, int64 (m,) each, differ from the definition: bool (m,)."""
        left, right = self.counts(seqs)
        found: NDArray[np.bool_] = (left != as_left) | (right != as_right)
        return found


#: One answer in this many is kept. It is prime, so that the sample includes boundaries of frames and slides.
KEPT_EVERY = 251
#: The most kept answers that are recomputed, spread over all.
RECOMPUTED_MAX = 4_000


class SampledAnswers:
    """Keeps the answer to every KEPT_EVERY-th tuple, for a later check."""

    def __init__(self) -> None:
        self._kept: list[HeardAnswers] = []

    def __call__(self, answers: HeardAnswers) -> None:
        """Keep the sampled answers."""
        kept = answers.seqs % KEPT_EVERY == 0
        if kept.any():
            self._kept.append(HeardAnswers(*(column[kept] for column in answers)))

    def recompute(self, join: TiedJoin, rows: int) -> tuple[int, list[int]]:
        """The number of recomputed answers, and the seqs of wrong ones; `rows` were sent."""
        if not self._kept:
            return 0, []
        kept = HeardAnswers(*(np.concatenate(column) for column in zip(*self._kept, strict=True)))
        chosen = np.unique(np.linspace(0, len(kept.seqs) - 1, RECOMPUTED_MAX).astype(np.int64))
        found = HeardAnswers(*(column[chosen] for column in kept))
        wrong: I64 = found.seqs[TiedRows(join, join.stream(), 0, rows).contradict(*found)]
        return len(chosen), wrong.tolist()
