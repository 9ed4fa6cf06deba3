"""Section `answers`: the cost of one answer per left row, by form, relative to a plain count of the same conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.bench.measurement import Bar, Measurement, at_least, at_most, seconds
from loadgen.promises.sizes import Context
from loadgen.promises.statement import RANGES, SCHEMA, StatementRows, counting_text, statement_rows
from loadgen.window import window_begin
from spojoin.arrays import I64
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.query.load import parse_query

#: The values of an answer's rows, given all rows and the partners' numbers, ascending.
Value = Callable[[StatementRows, I64], list[object]]

BANDS = "ABS(l.a - r.a) < 5 AND ABS(l.b - r.b) < 5"
NEAREST = "l.k = r.k AND l.a >= r.a"
#: By condition, whether right rows satisfy it with a left row.
_HOLDS: dict[str, Callable[[StatementRows, int, I64], NDArray[np.bool_]]] = {
    RANGES: lambda rows, one, r: (
        (rows.measured.a[r] < rows.measured.a[one]) & (rows.measured.b[r] > rows.measured.b[one])
    ),
    BANDS: lambda rows, one, r: _is_near(rows.measured.a, one, r) & _is_near(rows.measured.b, one, r),
    NEAREST: lambda rows, one, r: (rows.k[r] == rows.k[one]) & (rows.measured.a[r] <= rows.measured.a[one]),
}
#: A plain count searches for every row as a left and as a right one.
ROLES = 2
#: Left rows whose answers are compared with a scan, of each form.
CHECKED = 8
CHUNK_ROWS = 1 << 16
#: The v of rows that ask, if only timed rows ask.
ASKS = 1
#: How many rows time forms that list partners.
LISTED = 1 << 9


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """One form of answer: its text, its right values, and its bar.

    at_close: whether the answer covers all partners, not only earlier ones
    one_in: a count's piece has this many times more rows; unless it is 1, only timed rows ask
    """

    column: str
    value: Value
    bar: Bar
    join: str = ""
    clauses: str = "GROUP BY l"
    on: str = RANGES
    at_close: bool = False
    one_in: int = LISTED

    def text(self, window: int) -> str:
        """The query as YAML; the slide is a tenth of the window."""
        return f"""\
name: bench
streams:
  rows:
    schema: {SCHEMA}
sql: |
  SELECT l.seq AS n, {self.column} AS found FROM rows AS l {self.join}JOIN rows AS r
  ON {self.on}
  {"" if self.one_in == 1 else f"WHERE l.v = {ASKS}"}
  {self.clauses}
  WINDOW AS (SLIDE INTERVAL '{window // 10}' ON '{window}')
  EMIT ON {"CLOSE" if self.at_close else "ARRIVAL"}
order: arrival
"""

    def partners(self, rows: StatementRows, left: int, window: int) -> I64:
        """The numbers of a row's partners by a scan, ascending."""
        seqs: I64 = np.arange(len(rows.k) if self.at_close else left, dtype=np.int64)
        later = np.maximum(seqs, left)
        inside = np.minimum(seqs, left) >= window_begin(later, window, window // 10)
        found: I64 = seqs[inside & (seqs != left) & _HOLDS[self.on](rows, left, seqs)]
        return found


def _is_near(values: NDArray[np.float64], one: int, others: I64) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(values[others] - values[one]) < 5
    return near


def _if_any(value: Callable[[I64], object]) -> Value:
    return lambda rows, seqs: [value(rows.k[seqs])] if len(seqs) else []


def _counted(join: str, column: str, clauses: str, bar: Bar, value: Callable[[int], list[object]]) -> AnswerForm:
    return AnswerForm(column, lambda _, seqs: value(len(seqs)), bar, f"{join} ", clauses, at_close=True, one_in=1)


def _best(rows: StatementRows, seqs: I64) -> list[object]:
    return list(seqs[np.lexsort((seqs, rows.k[seqs]))[:3]].tolist())


def _nearest(rows: StatementRows, seqs: I64) -> list[object]:
    return list(seqs[np.lexsort((seqs, rows.measured.a[seqs]))[-1:]].tolist())


_MAX = _if_any(lambda k: int(k.max()))
FORMS: dict[str, AnswerForm] = {
    "COUNT at close": _counted("LEFT", "COUNT(r.a)", "GROUP BY l", at_most(1.2), lambda count: [count]),
    "SEMI at close": _counted("SEMI", "1", "", at_most(1), lambda count: [1] if count else []),
    "ANTI at close": _counted("ANTI", "1", "", at_most(1), lambda count: [] if count else [1]),
    "SUM of a long": AnswerForm("SUM(r.k)", _if_any(lambda k: int(k.sum())), at_most(3), one_in=1),
    "MAX, two ranges": AnswerForm("MAX(r.k)", _MAX, at_most(3), one_in=1),
    "MAX, two bands": AnswerForm("MAX(r.k)", _MAX, at_most(6), on=BANDS, one_in=1),
    "a median": AnswerForm("MEDIAN(r.k)", _if_any(lambda k: int(np.sort(k)[-(-len(k) // 2) - 1])), at_most(8)),
    "the best three": AnswerForm(
        "r.seq",
        _best,
        at_most(40),
        clauses="QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.k, r.seq) <= 3",
        one_in=1,
    ),
}
ASOF = AnswerForm("r.seq", _nearest, at_least(150_000), "ASOF ", "", NEAREST, one_in=1)


def measure(context: Context) -> Iterator[Measurement]:
    """Median pairwise ratios of a left row's time to a plain count's time per row and role; and ASOF's rate."""
    for name, form in FORMS.items():
        context.say(name)
        taken = _timed(context, form)
        ratio = median(own / plain * ROLES for own, plain in taken)
        note = f"median of {len(taken)} pairs; {median(own for own, _ in taken) * 1e6:.3g} us a left row"
        yield Measurement(f"{name} / plain count", ratio, "times", form.bar, note)
    context.say("ASOF")
    rate = 1 / median(own for own, _ in _timed(context, ASOF))
    yield Measurement("ASOF with an equality and one range", rate, "tuples/s", ASOF.bar)


def _timed(context: Context, form: AnswerForm) -> list[tuple[float, float]]:
    """Seconds per row of the form and of a plain count, in turn, for each piece after the full window.

    At close, rows close after twice as many rows as fill a window. They close slide by slide, so a piece is a slide.
    """
    sizes = context.sizes
    plain_piece = sizes.slide if form.at_close else sizes.slide_after // 10
    piece = max(plain_piece // form.one_in, 1)
    filling = sizes.window * (2 if form.at_close else 1)
    rows = statement_rows(filling + piece * sizes.repeats)
    rows.v[:filling] = 0
    rows.v[filling:] = ASKS
    table = rows.table()
    asking = engine_for(parse_query(form.text(sizes.window)), 1, 1)
    plain = engine_for(parse_query(counting_text("bench", form.on, sizes.window)), 1, 1)
    answers = [*_fed(asking, table.slice(0, filling))]
    _ = [*_fed(plain, table.slice(0, sizes.window))]
    taken = []
    for at in range(filling, len(rows.k), piece):
        own = seconds(lambda at=at: answers.extend(_fed(asking, table.slice(at, piece))))  # type: ignore[misc]
        counted = seconds(partial(list, _fed(plain, table.slice(0, plain_piece))))
        taken.append((own / piece, counted / plain_piece))
    for engine in (asking, plain):
        engine.close()
    _check(form, rows, answers, filling, sizes.window)
    return taken


def _fed(engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The results of rows, including the last, partial frame."""
    fed = (engine.feed(0, batch) for batch in table.to_batches(CHUNK_ROWS))
    yield from chain.from_iterable(fed)
    yield from engine.flush()


def _check(form: AnswerForm, rows: StatementRows, answers: list[pa.RecordBatch], filling: int, window: int) -> None:
    """Compare the answers of some left rows with a scan. Raises AssertionError."""
    first, end = (0, filling - window) if form.at_close else (filling, len(rows.k))
    for left in np.linspace(first, end - 1, CHECKED, dtype=np.int64).tolist():
        batches = (batch.filter(pc.equal(batch["n"], left)) for batch in answers)
        found = [int(value.as_py()) for batch in batches for value in batch["found"]]
        expected = form.value(rows, form.partners(rows, left, window))
        if found != expected:
            raise AssertionError(f"left row {left} has {found}, a scan finds {expected}")
