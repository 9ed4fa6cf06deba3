"""The works of sections `scale`, `heavy` and `columns`: queries, their rows, and what a scan finds of their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.promises.data import check_counts, columns, self_join_text
from loadgen.promises.recording import ScaleWork
from loadgen.promises.sizes import PromiseSizes
from loadgen.promises.statement import RANGES
from loadgen.window import window_of
from spojoin.arrays import Flags

WORKLOAD = "uniform"
CHECKED = 8
#: Keys of the work by key, and the exponent of their frequencies.
KEYS, EXPONENT = 100_000, 1.0
#: About how many partners a row of the work with pairs has.
PARTNERS = 10
THREE = f"{RANGES} AND l.p < r.p"
COUNTS = "output: count"

Values = dict[str, NDArray[np.float64]]
#: Which rows `r` a row `l` matches, given the columns of both.
Holds = Callable[[Values, Values], Flags]


class Extent(NamedTuple):
    """The window of a work, its slide, and all of its rows, the first `window` of which fill it."""

    window: int
    slide: int
    rows: int

    @classmethod
    def whole(cls, sizes: PromiseSizes) -> Extent:
        """The window of the promises."""
        return cls(sizes.window, sizes.slide, sizes.window + sizes.services_after // 2)

    @classmethod
    def small(cls, sizes: PromiseSizes) -> Extent:
        """The small window, for a work whose rows take long."""
        window = sizes.window_small
        return cls(window, window // 10, window + sizes.services_after // 5)

    def inside(self, rows: pa.Table, seq: int) -> Values:
        """The columns of the rows in a row's window."""
        return _values(rows[window_of(seq, self.window, self.slide)])

    def text(
        self, name: str, *, on: str, selects: str = "*", columns: str = "p: double", emit: str = "", tail: str = ""
    ) -> str:
        """A self join of the one stream `rows` as YAML.

        columns: beside a and b; emit: when rows answer, if the statement must say so; tail: further lines of the file
        """
        return f"""\
name: {name}
streams:
  rows:
    schema: {{{columns}, a: double, b: double}}
sql: |
  SELECT {selects} FROM rows AS l JOIN rows AS r
  ON {on}
  WINDOW AS (SLIDE INTERVAL '{self.slide}' ON '{self.window}') {emit}
order: arrival
{tail}
"""


def plain(sizes: PromiseSizes) -> ScaleWork:
    """Counts of two ranges."""
    extent = Extent.whole(sizes)
    data = columns(WORKLOAD, extent.rows)

    def text(name: str) -> str:
        return self_join_text(extent.window, extent.slide, name=name)

    def check(found: pa.Table) -> None:
        check_counts(data, extent.window, extent.slide, found, CHECKED)

    return ScaleWork("counts", text, data.table(), extent.window, check)


def three_ranges(sizes: PromiseSizes) -> ScaleWork:
    """Counts of three ranges of independent columns."""
    extent = Extent.whole(sizes)
    rows = _with(extent, p=np.random.default_rng(17).random(extent.rows))
    return _counted("ranges", partial(extent.text, on=THREE, tail=COUNTS), rows, extent, _three)


def pairs(sizes: PromiseSizes) -> ScaleWork:
    """Pairs of three ranges, some PARTNERS a row: the columns are close to each other.

    With a distance of d between them, a share of 0.4 d of all pairs matches in a direction (an integral of normal
    distributions).
    """
    extent = Extent.small(sizes)
    random = np.random.default_rng(19)
    distance = PARTNERS / 2 / 0.4 / extent.window
    common = random.random(extent.rows)
    a, b, p = (common + distance * random.standard_normal(extent.rows) for _ in range(3))
    rows = pa.table({"a": a, "b": b, "p": p})
    text = partial(extent.text, on=THREE, selects="l.seq AS one, r.seq AS other")
    return ScaleWork("pairs", text, rows, extent.window, partial(_check_pairs, rows, extent))


def greatest(sizes: PromiseSizes) -> ScaleWork:
    """The greatest value of each left row's partners by two ranges."""
    extent = Extent.whole(sizes)
    rows = _with(extent, p=np.random.default_rng(23).random(extent.rows))
    selects, emit = "l.seq AS one, MAX(r.p) AS greatest", "EMIT ON ARRIVAL"
    text = partial(extent.text, on=f"{RANGES}\n  GROUP BY l", selects=selects, emit=emit)
    return ScaleWork("max", text, rows, extent.window, partial(_check_greatest, rows, extent))


def by_key(sizes: PromiseSizes) -> ScaleWork:
    """Counts of two ranges and an equality of KEYS keys, the k-th of which is 1 / k times as frequent as the first."""
    extent = Extent.whole(sizes)
    shares = np.cumsum(1 / np.arange(1, KEYS + 1) ** EXPONENT)
    keys = np.searchsorted(shares / shares[-1], np.random.default_rng(29).random(extent.rows))
    rows = _with(extent, k=keys.astype(np.int64))
    text = partial(extent.text, on=f"l.k = r.k AND {RANGES}", columns="k: long", tail=COUNTS)
    return _counted("key", text, rows, extent, lambda one, r: (r["k"] == one["k"]) & _two(one, r))


def _with(extent: Extent, **more: NDArray[np.float64] | NDArray[np.int64]) -> pa.Table:
    table = columns(WORKLOAD, extent.rows).table()
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    return table


def _counted(name: str, text: Callable[[str], str], rows: pa.Table, extent: Extent, holds: Holds) -> ScaleWork:
    return ScaleWork(name, text, rows, extent.window, partial(_check_counts, rows, extent, holds))


# --- what a scan finds ------------------------------------------------------------------------------------------------


def _two(one: Values, r: Values) -> Flags:
    return (r["a"] < one["a"]) & (r["b"] > one["b"])


def _three(one: Values, r: Values) -> Flags:
    return _two(one, r) & (r["p"] > one["p"])


def _check_counts(rows: pa.Table, extent: Extent, holds: Holds, found: pa.Table) -> None:
    for at in _some(found.num_rows):
        seq = found["seq"][at].as_py()
        one, inside = _one(rows, seq), extent.inside(rows, seq)
        expected = tuple(int(np.count_nonzero(flags)) for flags in (holds(one, inside), holds(inside, one)))
        _compare(seq, (found["as_left"][at].as_py(), found["as_right"][at].as_py()), expected)


def _check_pairs(rows: pa.Table, extent: Extent, found: pa.Table) -> None:
    one, other = (found[name].to_numpy() for name in ("one", "other"))
    later, earlier = np.maximum(one, other), np.minimum(one, other)
    for at in _some(found.num_rows):
        seq = int(later[at])
        row, inside = _one(rows, seq), extent.inside(rows, seq)
        partners = np.flatnonzero(_three(row, inside) | _three(inside, row))
        first = window_of(seq, extent.window, extent.slide).start
        _compare(seq, sorted(earlier[later == seq].tolist()), (partners + first).tolist())


def _check_greatest(rows: pa.Table, extent: Extent, found: pa.Table) -> None:
    for at in _some(found.num_rows):
        seq = found["one"][at].as_py()
        inside = extent.inside(rows, seq)
        partners = _two(_one(rows, seq), inside)
        _compare(seq, found["greatest"][at].as_py(), float(inside["p"][partners].max()))


def _some(count: int) -> list[int]:
    """Positions spread over all results."""
    some: list[int] = np.linspace(0, count - 1, CHECKED, dtype=np.int64).tolist()
    return some


def _one(rows: pa.Table, seq: int) -> Values:
    return _values(rows[seq : seq + 1])


def _values(rows: pa.Table) -> Values:
    return {name: rows[name].to_numpy() for name in rows.column_names}


def _compare(seq: int, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"row {seq} has {found}, a scan finds {expected}")
