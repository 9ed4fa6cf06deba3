"""The queries of the main job, and the flights that go to each of their streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.window import window_begin
from spojoin.columns.numbers import read_times_us
from spojoin.columns.refusals import Refusals
from spojoin.errors import ConfigurationError
from spojoin.model import EmitOn, Filter, Order, Query
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import input_topic
from spojoin.query.load import parse_query

#: Rows by stream.
Tables = Mapping[str, pa.Table]

#: The part of each stream that is sent at full speed; the rest is paced, so that latencies exclude queueing.
FULL_SPEED_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Job:
    """A query file of loadgen/queries; `origins` names the airport whose flights a stream gets, "" for all.

    message: the format of messages, json or arrow; partitions: of each input topic; packing: the roles that share a
    process; months: the first months of the year whose flights are sent
    is_backfilled: whether Spark also answers the query, over all rows as a history
    """

    file: str
    origins: dict[str, str]
    message: str
    partitions: int
    packing: str = APART
    months: int = 12
    is_backfilled: bool = False

    @property
    def path(self) -> Path:
        """The path of the query file."""
        return Path(str(files("loadgen") / "queries" / self.file))

    @property
    def name(self) -> str:
        """The query's name, with its packing if any, so that each play has its own topics."""
        return self.path.stem if self.packing == APART else f"{self.path.stem}-{self.packing}"

    @property
    def text(self) -> str:
        """The query under this name."""
        return self.path.read_text().replace(f"name: {self.path.stem}\n", f"name: {self.name}\n", 1)

    def query(self) -> Query:
        return parse_query(self.text)

    def topic(self, stream: str) -> str:
        """The play's own input topic of a stream, since plays may use different columns of a stream."""
        return f"{self.name}.{input_topic(stream)}"

    def tables(self, flights: Callable[..., pa.Table]) -> Tables:
        """Each stream's rows with the columns that the query names; `flights` is loadgen.load.workloads.flights."""
        query = self.query()
        tables = {}
        for stream in query.inputs:
            rows = flights(by_time=query.order.by is Order.EVENT_TIME, origin=self.origins[stream.name] or None)
            if self.months < 12:
                rows = rows.filter(pc.less(rows["time_hour"], f"2013-{self.months + 1:02d}"))
            names = dict.fromkeys([*stream.schema, stream.time, stream.key])
            tables[stream.name] = rows.select([name for name in names if name is not None])
        return tables


JOBS = (
    Job("farther-from-the-same-airport.yaml", {"flights": ""}, message="json", partitions=1),
    Job("kennedy-or-la-guardia.yaml", {"kennedy": "JFK", "la_guardia": "LGA"}, message="json", partitions=1),
    # One process starts while Spark starts, a process a service after it.
    Job("alike-to-another-city.yaml", {"departures": ""}, message="arrow", partitions=2, packing=TOGETHER, months=6),
    Job("alike-to-another-city.yaml", {"departures": ""}, message="arrow", partitions=2, months=6),
    Job("unbeaten-flights.yaml", {"departures": ""}, message="arrow", partitions=1, is_backfilled=True),
)
#: The file of the query that is played by default, once in each packing.
USUAL = "alike-to-another-city.yaml"


def chosen_jobs(only: Sequence[str] = (), *, is_all: bool = False) -> list[Job]:
    """The jobs with these names, or all, or the usual ones. Raises ConfigurationError if there is no such job."""
    names = [job.name for job in JOBS]
    if unknown := [name for name in only if name not in names]:
        raise ConfigurationError(f"--only {unknown[0]}: there is no such query; expected one of {', '.join(names)}")
    return [job for job in JOBS if is_all or (job.name in only if only else job.file == USUAL)]


def passing(table: pa.Table, condition: Filter | None) -> NDArray[np.bool_]:
    """Whether rows of a stream's input pass its filter, (n,)."""
    if condition is None:
        return np.ones(table.num_rows, np.bool_)
    found = duckdb.arrow(table).project(f"coalesce({condition.condition.sql}, false) AS passes").to_arrow_table()
    return np.asarray(found["passes"].to_numpy(), np.bool_)


def numbered(tables: Tables, query: Query) -> Tables:
    """The rows that take a number, because they pass the filter of a stream that their input feeds."""
    kept = {}
    for number, source in enumerate(query.inputs):
        table = tables[source.name]
        passes = [passing(table, member.filter) for member in source.fed(number)]
        kept[source.name] = table.filter(pa.array(np.logical_or.reduce(passes)))
    return kept


def answered(tables: Tables, query: Query) -> int:
    """The number of rows that get an answer."""
    found = _left(tables, query) if query.asks else numbered(tables, query)
    return sum(table.num_rows for table in found.values())


def answers_due(tables: Tables, query: Query, sent: int, until_ms: int) -> int:
    """The number of answers once no input has further rows from before `until_ms`.

    tables: all rows; sent: the number of sent rows that get an answer, all before `until_ms`
    """
    if query.answers.emit is EmitOn.ARRIVAL:
        return sent
    window = query.window_over(0)
    begin = window_begin(until_ms * 1000, window.length, window.slide)
    (times,) = _times_us(_left(tables, query), query).values()
    return int(np.searchsorted(times, begin))


def _left(tables: Tables, query: Query) -> Tables:
    source = query.streams[0]
    return {source.name: tables[source.name].filter(pa.array(passing(tables[source.name], source.filter)))}


class Parts(NamedTuple):
    """Every stream's first rows and the rest; `cut_ms`: the event time between them, None in arrival order."""

    first: Tables
    rest: Tables
    cut_ms: int | None


def split(tables: Tables, query: Query) -> Parts:
    """Cut FULL_SPEED_SHARE off; in event-time order all streams are cut at the same time, where the rest begins."""
    cut_us = None
    if query.order.by is Order.ARRIVAL:
        cuts = {name: int(table.num_rows * FULL_SPEED_SHARE) for name, table in tables.items()}
    else:
        times = _times_us(tables, query)
        longest = max(times.values(), key=len)
        cut_us = int(longest[int(len(longest) * FULL_SPEED_SHARE)])
        cuts = {name: int(np.searchsorted(column, cut_us)) for name, column in times.items()}
    return Parts(
        {name: table.slice(0, cuts[name]) for name, table in tables.items()},
        {name: table.slice(cuts[name]) for name, table in tables.items()},
        None if cut_us is None else cut_us // 1000,
    )


def rows_until_full(tables: Tables, query: Query) -> int:
    """The number of numbered rows of all inputs that fill the windows of all streams."""
    window, taking = query.window, numbered(tables, query)
    if query.order.by is Order.ARRIVAL:
        return sum(_places_until(window.length, table, query, name) for name, table in taking.items())
    times = _times_us(taking, query)
    if window.needs_time:
        full = max(int(column[0]) for column in times.values()) + window.length
    else:
        full = max(int(column[min(window.length, len(column) - 1)]) for column in times.values())
    return sum(int(np.searchsorted(column, full)) for column in times.values())


def _places_until(length: int, table: pa.Table, query: Query, name: str) -> int:
    """The number of an input's rows that give each of its streams `length` rows."""
    own = [passing(table, stream.filter) for stream in query.streams if stream.name == name]
    return max(int(np.searchsorted(np.cumsum(passes), length)) for passes in own) + 1


def _times_us(tables: Tables, query: Query) -> dict[str, NDArray[np.int64]]:
    """Event times, int64 microseconds (n,), ascending, by stream."""
    return {
        stream.name: read_times_us(
            stream.time, tables[stream.name][stream.time].combine_chunks(), Refusals(0), stream.schema.get(stream.time)
        )
        for stream in query.inputs
        if stream.time is not None and stream.name in tables
    }
