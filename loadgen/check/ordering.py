"""Who takes part and in which order, from the inputs (event time) or from the results themselves (arrival)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.check.key_columns import KeyColumns, shared_codes
from loadgen.check.nested_loop import Tuples
from loadgen.check.verdict import Verdict
from spojoin.model import Member, Order, Output, Query, Stream

I64 = NDArray[np.int64]
#: A row of an input: partition, offset, row.
Place = tuple[int, int, int]
#: In place of an input: a seq that no row has which could join.
NOBODY = -1


@dataclass(frozen=True, slots=True)
class StreamRows:
    """A stream's rows that have no fault in themselves, each partition's together and in its order (n of them).

    reasons: of the others, all that apply, by place
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
        """The same with more rows refused."""
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
        """For each stream that this input feeds, which rows pass its filter, (n,) each."""
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
    """Rows whose time is below the largest before them in their partition, less the lateness."""
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
        """How many rows take part."""
        return int(np.count_nonzero(self.stream != NOBODY))

    def tuples(self, query: Query, inputs: Sequence[StreamRows]) -> Tuples:
        """The same with values, for the nested loop."""
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
    """The inputs without the rows that pass no filter, which take no number."""
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
    # Rows of a stream are sorted by place already, so that the index stands for it.
    times = np.concatenate([rows.times_us for rows in streams if rows.times_us is not None])
    order = np.lexsort((index, stream, times))
    return Ordered(stream[order], index[order])


def by_arrival(query: Query, streams: Sequence[StreamRows], rows: pa.Table, verdict: Verdict) -> Ordered:
    """The order that a count output claims, proved to keep every partition's own; differences go to the verdict.

    `rows` has each seq once, ascending. Raises ValueError where the results don't determine an order.
    """
    names = [stream.name for stream in query.inputs]
    lanes = [_lanes(rows_) for rows_ in streams]
    if query.output is not Output.COUNT:
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
    """One partition's keys, and how far the merge has come in it."""

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
        """Give seq `seq` to the row of `stream` with this key; rows that results passed over take the seqs between."""
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
        """Rows that no result names come last."""
        for stream, lanes in enumerate(self._lanes):
            for lane in lanes:
                while lane.at < len(lane.keys):
                    self._advance(stream, lane)


def rejected_counts(query: Query, streams: Sequence[StreamRows]) -> dict[str, int]:
    """Refused rows by reason; one with several faults counts as the first by name of `_RANK`."""
    found = Counter(min(reasons, key=_RANK.index) for rows in streams for reasons in rows.reasons.values())
    return dict(sorted(found.items()))


_RANK = ["no-key", "malformed", "missing-field", "null", "nan", "type", "unit", "overflow", "time", "late"]


def is_by_time(query: Query) -> bool:
    """Whether tuples are ordered by their times."""
    return query.order is Order.EVENT_TIME
