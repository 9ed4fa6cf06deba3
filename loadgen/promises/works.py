"""The works of section `scale`: queries, their rows, and what a scan finds of their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.promises.data import Columns, check_counts, columns, self_join_text
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

Values = dict[str, NDArray[np.float64]]
#: Which rows `r` a row `l` matches, given the columns of both.
Holds = Callable[[Values, Values], Flags]


def plain(sizes: PromiseSizes) -> ScaleWork:
    """Counts of two ranges."""
    data = columns(WORKLOAD, _rows(sizes))
    check = partial(_check_plain, data, sizes)
    return ScaleWork("counts", lambda name: _plain_text(name, sizes), data.table(), sizes.window, check)


def three_ranges(sizes: PromiseSizes) -> ScaleWork:
    """Counts of three ranges of independent columns."""
    rows = _with(_rows(sizes), p=np.random.default_rng(17).random(_rows(sizes)))
    on = f"{RANGES} AND l.p < r.p"
    holds: Holds = lambda one, r: (r["a"] < one["a"]) & (r["b"] > one["b"]) & (r["p"] > one["p"])  # noqa: E731
    return _counted("ranges", on, rows, sizes, holds)


def pairs(sizes: PromiseSizes) -> ScaleWork:
    """Pairs of three ranges, some PARTNERS a row: the columns are close to each other.

    With a distance of d between them, a share of 0.4 d of all pairs matches in a direction (an integral of normal
    distributions).
    """
    count = _rows(sizes)
    random = np.random.default_rng(19)
    distance = PARTNERS / 2 / 0.4 / sizes.window
    common = random.random(count)
    a, b, p = (common + distance * random.standard_normal(count) for _ in range(3))
    rows = pa.table({"a": a, "b": b, "p": p})
    text = partial(_text, on=f"{RANGES} AND l.p < r.p", selects="l.seq AS one, r.seq AS other", sizes=sizes)
    return ScaleWork("pairs", text, rows, sizes.window, partial(_check_pairs, rows, sizes))


def greatest(sizes: PromiseSizes) -> ScaleWork:
    """The greatest value of each left row's partners by two ranges."""
    rows = _with(_rows(sizes), p=np.random.default_rng(23).random(_rows(sizes)))
    text = partial(_text, on=f"{RANGES}\n  GROUP BY l", selects="l.seq AS one, MAX(r.p) AS greatest", sizes=sizes)
    return ScaleWork("max", text, rows, sizes.window, partial(_check_greatest, rows, sizes))


def by_key(sizes: PromiseSizes) -> ScaleWork:
    """Counts of two ranges and an equality of KEYS keys, the k-th of which is 1 / k times as frequent as the first."""
    count = _rows(sizes)
    shares = np.cumsum(1 / np.arange(1, KEYS + 1) ** EXPONENT)
    keys = np.searchsorted(shares / shares[-1], np.random.default_rng(29).random(count))
    rows = _with(count, k=keys.astype(np.int64))
    holds: Holds = lambda one, r: (r["k"] == one["k"]) & (r["a"] < one["a"]) & (r["b"] > one["b"])  # noqa: E731
    return _counted("key", f"l.k = r.k AND {RANGES}", rows, sizes, holds, key="k: long, ")


def _rows(sizes: PromiseSizes) -> int:
    return sizes.window + sizes.services_after // 2


def _with(count: int, **more: NDArray[np.float64] | NDArray[np.int64]) -> pa.Table:
    table = columns(WORKLOAD, count).table()
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    return table


def _plain_text(name: str, sizes: PromiseSizes) -> str:
    return self_join_text(sizes.window, sizes.slide, name=name)


def _text(name: str, on: str, selects: str, sizes: PromiseSizes, key: str = "p: double, ", output: str = "") -> str:
    return f"""\
name: {name}
streams:
  rows:
    schema: {{{key}a: double, b: double}}
sql: |
  SELECT {selects} FROM rows AS l JOIN rows AS r
  ON {on}
  WINDOW AS (SLIDE INTERVAL '{sizes.slide}' ON '{sizes.window}')
  {"EMIT ON ARRIVAL" if "GROUP BY" in on else ""}
order: arrival
{output}
"""


def _counted(
    name: str, on: str, rows: pa.Table, sizes: PromiseSizes, holds: Holds, key: str = "p: double, "
) -> ScaleWork:
    text = partial(_text, on=on, selects="*", sizes=sizes, key=key, output="output: count")
    return ScaleWork(name, text, rows, sizes.window, partial(_check_counts, rows, sizes, holds))


# --- what a scan finds ------------------------------------------------------------------------------------------------


def _check_plain(data: Columns, sizes: PromiseSizes, found: pa.Table) -> None:
    check_counts(data, sizes.window, sizes.slide, found, CHECKED)


def _check_counts(rows: pa.Table, sizes: PromiseSizes, holds: Holds, found: pa.Table) -> None:
    for at in _some(found.num_rows):
        seq = found["seq"][at].as_py()
        one, inside = _one(rows, seq), _inside(rows, sizes, seq)
        as_left, as_right = holds(one, inside), holds(inside, one)
        expected = int(np.count_nonzero(as_left)), int(np.count_nonzero(as_right))
        _compare(seq, (found["as_left"][at].as_py(), found["as_right"][at].as_py()), expected)


def _check_pairs(rows: pa.Table, sizes: PromiseSizes, found: pa.Table) -> None:
    later = np.maximum(found["one"].to_numpy(), found["other"].to_numpy())
    earlier = np.minimum(found["one"].to_numpy(), found["other"].to_numpy())
    for at in _some(found.num_rows):
        seq = int(later[at])
        one, inside = _one(rows, seq), _inside(rows, sizes, seq)
        partners = _three(one, inside) | _three(inside, one)
        first = window_of(seq, sizes.window, sizes.slide).start
        _compare(seq, sorted(earlier[later == seq].tolist()), (np.flatnonzero(partners) + first).tolist())


def _check_greatest(rows: pa.Table, sizes: PromiseSizes, found: pa.Table) -> None:
    for at in _some(found.num_rows):
        seq = found["one"][at].as_py()
        one, inside = _one(rows, seq), _inside(rows, sizes, seq)
        partners = (inside["a"] < one["a"]) & (inside["b"] > one["b"])
        _compare(seq, found["greatest"][at].as_py(), float(inside["p"][partners].max()))


def _three(one: Values, r: Values) -> Flags:
    return (r["a"] < one["a"]) & (r["b"] > one["b"]) & (r["p"] > one["p"])


def _some(count: int) -> list[int]:
    """Positions spread over all results."""
    some: list[int] = np.linspace(0, count - 1, CHECKED, dtype=np.int64).tolist()
    return some


def _one(rows: pa.Table, seq: int) -> Values:
    return {name: rows[name][seq : seq + 1].to_numpy() for name in rows.column_names}


def _inside(rows: pa.Table, sizes: PromiseSizes, seq: int) -> Values:
    inside = rows[window_of(seq, sizes.window, sizes.slide)]
    return {name: inside[name].to_numpy() for name in rows.column_names}


def _compare(seq: int, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"row {seq} has {found}, a scan finds {expected}")
