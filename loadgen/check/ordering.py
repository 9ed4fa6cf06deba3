"""Key columns for the nested loop: numbers, with a separate mask of NULLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.check.nested_loop import Tuples
from loadgen.check.rows import is_read_here
from loadgen.check.verdict import Verdict
from spojoin.arrays import I64
from spojoin.model import Domain, KeyColumn, Member, Order, Output, Query, Stream


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """One key column: values (n,), texts as an Arrow array; nulls bool (n,), whose values mean nothing."""

    values: NDArray[Any] | pa.Array
    nulls: NDArray[np.bool_]

    def at(self, rows: I64) -> KeyValues:
        """The values of some rows."""
        kept = self.values.take(pa.array(rows)) if isinstance(self.values, pa.Array) else self.values[rows]
        return KeyValues(kept, self.nulls[rows])


class KeyColumns:
    """The key columns of an input's parsed rows."""

    def __init__(self, source: Stream, table: pa.Table) -> None:
        self._source, self._table = source, table

    def of(self, slot: int) -> KeyValues:
        """The column of a slot. Raises ValueError if Spark must evaluate it and didn't."""
        key = self._source.keys[slot]
        if f"k{slot}" not in self._table.column_names:
            raise ValueError(f"the expression {key.text} needs Spark: check the query by `loadgen check`")
        column = self._table[f"k{slot}"].combine_chunks()
        nulls = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
        return KeyValues(_values(column, key), nulls)


def _values(column: pa.Array, key: KeyColumn) -> NDArray[Any] | pa.Array:
    if key.domain is Domain.ASSIGNED:
        return _as_bytes(column)
    if key.domain is Domain.FLOAT:
        return np.asarray(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(column.type):
        unscaled = [0 if value is None else int(value.scaleb(key.scale)) for value in column.to_pylist()]
        return np.array(unscaled, np.int64)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    whole = np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    return whole if is_read_here(key) else whole * 10**key.scale  # values read here are already scaled


def _as_bytes(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string()) if pa.types.is_boolean(column.type) else column
    return texts.cast(pa.binary()).fill_null(b"")


def shared_codes(columns: Sequence[Sequence[KeyValues]]) -> list[list[KeyValues]]:
    """The same columns with each text replaced by a number; equal texts have equal numbers."""
    texts = [each.values for own in columns for each in own if isinstance(each.values, pa.Array)]
    if not texts:
        return [list(own) for own in columns]
    distinct = pc.unique(pa.chunked_array(texts, pa.binary()))
    return [[_coded(each, distinct) for each in own] for own in columns]


def _coded(column: KeyValues, distinct: pa.Array) -> KeyValues:
    if not isinstance(column.values, pa.Array):
        return column
    codes = pc.index_in(column.values, distinct).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return KeyValues(np.asarray(codes), column.nulls)


#: A row of an input: partition, offset, row.
Place = tuple[int, int, int]
#: In place of an input: this seq has no row that could join.
NOBODY = -1


@dataclass(frozen=True, slots=True)
class StreamRows:
    """A stream's n valid rows, grouped by partition and in its order.

    reasons: of the other rows, by place, all reasons that apply
    """

    table: pa.Table
    places: tuple[I64, I64, I64]
    times_us: I64 | None
    keys: list[str | None]
    reasons: dict[Place, frozenset[str]]

    @classmethod
    def of(cls, table: pa.Table, needs_time: bool) -> StreamRows:
        """From the parsed rows of `rows.parse`, in any order."""
        table = table.sort_by([("partition", "ascending"), ("offset", "ascending"), ("row", "ascending")])
        bad = table.filter(pc.is_valid(table["reasons"]))
        columns = (bad[name].to_pylist() for name in ("partition", "offset", "row", "reasons"))
        reasons = {(p, o, r): frozenset(words.split()) for p, o, r, words in zip(*columns, strict=True)}
        good = table.filter(pc.is_null(table["reasons"]))
        partition, offset, row = (good[name].to_numpy().astype(np.int64) for name in ("partition", "offset", "row"))
        times = good["time_us"].to_numpy().astype(np.int64) if needs_time else None
        return cls(good, (partition, offset, row), times, good["key"].to_pylist(), reasons)

    def without(self, refused: NDArray[np.bool_], reason: str) -> StreamRows:
        """The rows without the refused ones, which get this reason."""
        if not refused.any():
            return self
        partition, offset, row = (column[refused].tolist() for column in self.places)
        reasons = self.reasons | {p: frozenset([reason]) for p in zip(partition, offset, row, strict=True)}
        return replace(self.at(np.flatnonzero(~refused)), reasons=reasons)

    def at(self, kept: I64) -> StreamRows:
        """Only the rows at these places, ascending."""
        return StreamRows(
            self.table.take(kept),
            (self.places[0][kept], self.places[1][kept], self.places[2][kept]),
            None if self.times_us is None else self.times_us[kept],
            [self.keys[i] for i in kept],
            self.reasons,
        )

    def passing(self, stream: Stream) -> list[NDArray[np.bool_]]:
        """For each stream that this input feeds, whether rows pass its filter, (n,) each."""
        return [self._passes(number, member) for number, member in enumerate(stream.fed(0))]

    def _passes(self, number: int, member: Member) -> NDArray[np.bool_]:
        if member.filter is None:
            return np.ones(len(self), np.bool_)
        name = f"f{number}"
        if name not in self.table.column_names:
            raise ValueError(f"the filter {member.filter.text} needs Spark: check the query by `loadgen check`")
        return np.asarray(self.table[name].to_numpy(), np.bool_)

    def __len__(self) -> int:
        return len(self.places[0])


def late_rows(rows: StreamRows, lateness_us: int) -> NDArray[np.bool_]:
    """Rows whose time is below the largest earlier time in their partition less the lateness."""
    late = np.zeros(len(rows), np.bool_)
    assert rows.times_us is not None, "lateness needs times"
    for partition in np.unique(rows.places[0]):
        at = np.flatnonzero(rows.places[0] == partition)
        times = rows.times_us[at]
        high = np.maximum.accumulate(times)[:-1]
        late[at[1:]] = times[1:] < high - lateness_us
    return late


@dataclass(frozen=True, slots=True)
class Ordered:
    """The total order: each tuple's input, or NOBODY, and its index among that input's rows.

    windows: as in `Tuples`
    """

    stream: NDArray[np.int8]
    index: I64
    windows: tuple[I64, I64] | None = None

    @property
    def tuples_count(self) -> int:
        """The number of rows that take part."""
        return int(np.count_nonzero(self.stream != NOBODY))

    def tuples(self, query: Query, inputs: Sequence[StreamRows]) -> Tuples:
        """The tuples with their values, for the nested loop."""
        members, columns = [], []
        for number, (source, rows) in enumerate(zip(query.inputs, inputs, strict=True)):
            found = KeyColumns(source, rows.table)
            own = np.flatnonzero(self.stream == number)
            for member, passes in zip(source.fed(number), rows.passing(source), strict=True):
                held = own[passes[self.index[own]]]
                members.append(np.isin(np.arange(len(self.stream)), held))
                columns.append([found.of(slot).at(self.index[held]) for slot in member.slots])
        together = shared_codes(columns)
        values = tuple(tuple(column.values for column in each) for each in together)
        nulls = tuple(tuple(column.nulls for column in each) for each in together)
        return Tuples(self.stream, values, self._times(query, inputs), nulls, tuple(members), self.windows)

    def _times(self, query: Query, inputs: Sequence[StreamRows]) -> I64 | None:
        if not query.needs_time:
            return None
        times = np.empty(len(self.stream), np.int64)
        for number, rows in enumerate(inputs):
            assert rows.times_us is not None, "the query needs times"
            times[self.stream == number] = rows.times_us[self.index[self.stream == number]]
        return times

    def keys(self, streams: Sequence[StreamRows]) -> list[str | None]:
        """Each tuple's key as text."""
        return [streams[s].keys[i] for s, i in zip(self.stream.tolist(), self.index.tolist(), strict=True)]


def numbered(query: Query, inputs: Sequence[StreamRows]) -> list[StreamRows]:
    """The inputs without the rows that pass no filter, since these take no number."""
    kept = [
        np.flatnonzero(np.logical_or.reduce(rows.passing(source)))
        for source, rows in zip(query.inputs, inputs, strict=True)
    ]
    return [
        rows if len(own) == len(rows) else rows.at(own.astype(np.int64)) for rows, own in zip(inputs, kept, strict=True)
    ]


def by_time(streams: Sequence[StreamRows]) -> Ordered:
    """The order of (time, stream, partition, offset, row)."""
    stream = np.repeat(np.arange(len(streams), dtype=np.int8), [len(rows) for rows in streams])
    index = np.concatenate([np.arange(len(rows), dtype=np.int64) for rows in streams])
    # Rows of a stream are already sorted by place, so the index replaces the place.
    times = np.concatenate([rows.times_us for rows in streams if rows.times_us is not None])
    order = np.lexsort((index, stream, times))
    return Ordered(stream[order], index[order])


def by_arrival(query: Query, streams: Sequence[StreamRows], rows: pa.Table, verdict: Verdict) -> Ordered:
    """The order that a count output claims, if it keeps every partition's order; differences go to the verdict.

    `rows` has each seq once, ascending. Raises ValueError if the results don't determine an order.
    """
    names = [stream.name for stream in query.inputs]
    lanes = [_lanes(rows_) for rows_ in streams]
    if query.results.output is not Output.COUNT:
        if len(streams) > 1 or len(lanes[0]) > 1:
            raise ValueError(
                f"query {query.name}: the order of arrival of several inputs shows in count results only; "
                f"check it with output: count, or with order: event_time"
            )
        return Ordered(np.zeros(len(streams[0]), np.int8), np.arange(len(streams[0]), dtype=np.int64))
    merge = _Merge(lanes, verdict)
    if rows.num_rows:
        claimed = zip(*(rows[name].to_pylist() for name in ("seq", "stream", "key")), strict=True)
        for seq, name, key in claimed:
            merge.take(seq, names.index(name), str(key))
    merge.finish()
    return Ordered(np.array(merge.stream, np.int8), np.array(merge.index, np.int64))


class _Lane:
    """One partition's keys, and the merge's position in it."""

    def __init__(self, first: int, keys: list[str | None]) -> None:
        self.first = first
        self.keys = keys
        self.at = 0


def _lanes(rows: StreamRows) -> list[_Lane]:
    cuts = [0, *(np.flatnonzero(np.diff(rows.places[0])) + 1).tolist(), len(rows)]
    return [_Lane(a, rows.keys[a:b]) for a, b in pairwise(cuts)] if len(rows) else []


class _Merge:
    """Replays claimed rows: each must be the next one of a partition."""

    def __init__(self, lanes: list[list[_Lane]], verdict: Verdict) -> None:
        self._lanes = lanes
        self._verdict = verdict
        self.stream: list[int] = []
        self.index: list[int] = []

    def take(self, seq: int, stream: int, key: str) -> None:
        """Give `seq` to the row of `stream` with this key; rows that results skipped take the seqs in between."""
        skipped = seq - len(self.stream)
        if skipped > 0:
            self._verdict.differs(f"seq {len(self.stream)} has no row in the results")
        for lane in self._lanes[stream]:
            ahead = lane.keys[lane.at : lane.at + skipped + 1]
            if key in ahead:
                for _ in range(ahead.index(key) + 1):
                    self._advance(stream, lane)
                return
        self._verdict.misordered += 1
        self._verdict.differs(
            f"seq {seq} is given to key {key} of stream {stream}, which is not the next row of any partition"
        )

    def _advance(self, stream: int, lane: _Lane) -> None:
        self.stream.append(stream)
        self.index.append(lane.first + lane.at)
        lane.at += 1

    def finish(self) -> None:
        """Put rows that no result names last."""
        for stream, lanes in enumerate(self._lanes):
            for lane in lanes:
                while lane.at < len(lane.keys):
                    self._advance(stream, lane)


def rejected_counts(query: Query, streams: Sequence[StreamRows]) -> dict[str, int]:
    """Refused rows by reason; a row with several faults counts under the first of them in `_RANK`."""
    found = Counter(min(reasons, key=_RANK.index) for rows in streams for reasons in rows.reasons.values())
    return dict(sorted(found.items()))


_RANK = ["no-key", "malformed", "missing-field", "null", "nan", "type", "unit", "overflow", "time", "late"]


def is_by_time(query: Query) -> bool:
    """Whether tuples are ordered by their times."""
    return query.order.by is Order.EVENT_TIME
