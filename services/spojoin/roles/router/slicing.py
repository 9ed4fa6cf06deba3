"""Each stream's part of a frame: its columns, window bounds, batch and handover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64, U16, Flags
from spojoin.columns.stream_columns import no_payload
from spojoin.model import ASKS_NOTHING, Member, Query
from spojoin.protocol.frame_evaluation import first_reached, reached_by
from spojoin.roles.router.asking import Asking
from spojoin.roles.router.queue import Cut, OrderedQueue, Origins, StreamColumns, concat_columns, has_stream_bit
from spojoin.roles.router.stream_book import Reach, StreamBook
from spojoin.roles.router.value_numbers import ValueNumbers, batch_codes
from spojoin.wire.columns import NO_KEYS
from spojoin.wire.records import NO_GROUP, Batch, Closing, Frame, StreamSlice, Unjoined


@dataclass(slots=True)
class FrameRows:
    """The rows of the next frame; `columns` by input.

    places: by stream, int64 (n,), how many of its rows came before each row
    """

    origins: Origins
    columns: list[StreamColumns | None]
    own: list[Flags]
    positions: I64
    places: list[I64]

    def last_time_us(self) -> int | None:
        """The event time of the last row."""
        columns = self.columns[int(self.origins.streams[-1])]
        return None if columns is None or columns.times_us is None else int(columns.times_us[-1])

    def times_us(self, number: int, rows: I64) -> I64 | None:
        """The event times of rows of an input; rows: int64 (k,), their numbers among all rows."""
        columns = self.columns[number]
        if columns is None or columns.times_us is None:
            return None
        return columns.times_us[_before(self.own[number])[rows]]


@dataclass(frozen=True, slots=True)
class FrameNumbers:
    """The numbers of the next frame and its first tuple."""

    frame_id: int
    first_seq: int


@dataclass(slots=True)
class _StreamPart:
    """One stream's tuples in the frame; void: how many rows are void.

    asks_nothing: (n,), which rows ask but are void, so that they find nothing; None if there are none
    """

    positions: U16
    columns: StreamColumns
    before: list[I64]
    void: int
    asks_nothing: Flags | None = None


class Slicer:
    """Makes the slices of frames from the queue's columns and the streams' books."""

    def __init__(
        self, query: Query, queue: OrderedQueue, books: Sequence[StreamBook], asking: Asking | None = None
    ) -> None:
        self._query = query
        self._queue = queue
        self._books = books
        self._fed = [(number, each) for number, source in enumerate(query.inputs) for each in source.fed(number)]
        self._names = ValueNumbers(query)
        self._asking = asking

    def streams_fed_by(self, number: int) -> int:
        """The streams that an input feeds, a bit for each."""
        return sum(1 << member.stream for source, member in self._fed if source == number)

    def restore_batch(self, batch: Batch) -> None:
        """Note a sealed batch that the log may no longer hold."""
        if self._names.is_needed:
            self._names.learn_numbers(batch.stream, batch_codes(batch), batch.payload, batch.first)

    def apply_frame(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log; frames that this slicer made contain nothing new."""
        if not self._names.is_needed:
            return
        if not is_written_here:
            for stream, piece in enumerate(frame.slices):
                self._names.learn_numbers(stream, piece.codes, piece.payload, piece.first_index)
        self._names.forget_unreached([first_reached(frame, stream) for stream in range(len(frame.slices))])

    def searched_stream(self, stream: int) -> int:
        """The stream that a stream's tuples search: the other one, or itself in a self join within one window."""
        return stream if self._query.is_self else 1 - stream

    def take_rows(self, origins: Origins) -> FrameRows:
        """Take the columns of `origins`, the queue's head, out of the queue."""
        if origins.is_plain:
            return self._plain(origins)
        own = [origins.streams == number for number in range(len(self._query.inputs))]
        counts = [int(np.count_nonzero(flags)) for flags in own]
        columns = [concat_columns(self._queue.inputs[i].pop_rows(n)) if n else None for i, n in enumerate(counts)]
        places = [
            book.next_place + _before(has_stream_bit(origins.members, stream))
            for stream, book in enumerate(self._books)
        ]
        return FrameRows(origins, columns, own, _before(origins.numbered), places)

    def _plain(self, origins: Origins) -> FrameRows:
        n = len(origins)
        columns, positions = concat_columns(self._queue.inputs[0].pop_rows(n)), np.arange(n, dtype=np.int64)
        places = [book.next_place + positions for book in self._books]
        return FrameRows(origins, [columns], [np.ones(n, np.bool_)], positions, places)

    def slice_rows(
        self, taken: FrameRows, cut: Cut, coming: FrameNumbers
    ) -> tuple[tuple[StreamSlice, ...], tuple[Closing, ...]]:
        """The slices of a frame, one for each stream, and if rows ask, the rows that close with it, by side."""
        self._names.begin_frame(coming.first_seq)
        pieces = [self._stream_part(taken, number, member) for number, member in self._fed]
        reaches = [self._reach(stream, piece) for stream, piece in enumerate(pieces)]
        lowers = [self._lower(stream, pieces[stream], reaches) for stream in range(len(self._books))]
        slices = tuple(
            self._slice(stream, pieces[stream], reaches[stream], lowers[stream], coming.frame_id, ends_slide=ends_slide)
            for stream, ends_slide in enumerate(cut.ends_slide)
        )
        closings = () if self._asking is None else self._closings(self._asking, slices, pieces, cut, taken, coming)
        for stream, (piece, book) in enumerate(zip(slices, self._books, strict=True)):
            lower = reached_by(closings, stream) if closings else int(lowers[self.searched_stream(stream)][0])
            piece.live_batch = book.first_live_batch(lower)
        return slices, closings

    def _closings(
        self,
        asking: Asking,
        slices: Sequence[StreamSlice],
        pieces: Sequence[_StreamPart],
        cut: Cut,
        taken: FrameRows,
        coming: FrameNumbers,
    ) -> tuple[Closing, ...]:
        for side in asking.sides:
            piece = slices[side.stream]
            piece.own = side.own_partners(slices, pieces[side.stream].asks_nothing)
            side.open.append_rows(coming.first_seq, piece)
        closings = asking.closing_rows(cut, taken.positions)
        for side, closing in zip(asking.sides, closings, strict=True):
            piece = slices[side.stream]
            if closing.first == piece.first_index and len(closing) == len(closing.seqs) == len(piece):
                closing.sorted_columns = piece.sorted_columns  # the same rows, so they are sorted only once
        return closings

    def unjoined(self, taken: FrameRows) -> tuple[Unjoined, ...]:  # P5.5
        """Rows that take a number but are in no slice."""
        if taken.origins.is_plain:
            return ()
        alone = taken.origins.numbered & (taken.origins.joins == 0)
        if not alone.any():
            return ()
        found = []
        for number, columns in enumerate(taken.columns):
            here = alone & taken.own[number]
            if columns is not None and here.any():
                keys = columns.keys.take(pa.array(np.flatnonzero(alone[taken.own[number]])))
                found.append(Unjoined(number, taken.positions[here].astype(np.uint16), keys))
        return tuple(found)

    def _stream_part(self, taken: FrameRows, number: int, member: Member) -> _StreamPart:
        columns = taken.columns[number]
        if columns is not None and taken.origins.is_plain:
            return _StreamPart(taken.positions.astype(np.uint16), _picked(columns, member), taken.places, 0)
        joins = has_stream_bit(taken.origins.joins, member.stream)
        asks_nothing = has_stream_bit(taken.origins.joins, ASKS_NOTHING + member.stream)[joins] if member.asks else None
        members = int(np.count_nonzero(has_stream_bit(taken.origins.members, member.stream)))
        source = taken.own[number]
        before = [places[joins] for places in taken.places]
        void = members - int(np.count_nonzero(joins))
        if columns is None:
            return _StreamPart(np.empty(0, np.uint16), self._no_columns(number, member), before, void, asks_nothing)
        here = joins[source]
        piece = _picked(columns if here.all() else columns.rows_at(here), member)
        return _StreamPart(taken.positions[joins].astype(np.uint16), piece, before, void, asks_nothing)

    def _reach(self, stream: int, piece: _StreamPart) -> Reach:
        return Reach(piece.columns.times_us, piece.before[stream], piece.void > 0)

    def _lower(self, probe: int, piece: _StreamPart, reaches: list[Reach]) -> I64:
        target = self.searched_stream(probe)
        probes = Reach(piece.columns.times_us, piece.before[target], False)
        return self._books[target].lower_bounds(probes, reaches[target])

    def _slice(
        self, stream: int, piece: _StreamPart, own: Reach, lower: I64, frame_id: int, *, ends_slide: bool
    ) -> StreamSlice:
        book, columns = self._books[stream], piece.columns
        seals = book.seals_after(frame_id, len(columns), piece.void, ends_slide=ends_slide)
        batch, index = book.handover(frame_id)
        return StreamSlice(
            first_index=book.count,
            positions=piece.positions,
            codes=self._names.number_codes(stream, columns.codes, columns.payload, book.count),
            lower=lower,
            times_us=columns.times_us,
            keys=columns.keys,
            batch_id=book.batch_id,
            batch_first=book.batch_first,
            seals=seals,
            group=book.batch_group(columns.times_us, own.places) if seals else NO_GROUP,
            handover_batch=batch,
            handover_index=index,
            live_batch=book.live_batch,
            payload=columns.payload,
            passed=book.passed,
            void=piece.void,  # P5.4
            places=own.places if piece.void and not self._query.window.needs_time else None,
        )

    def _no_columns(self, number: int, member: Member) -> StreamColumns:
        nothing, source = np.empty(0, np.int64), self._query.inputs[number]
        return StreamColumns(
            tuple(nothing for _ in member.slots),
            nothing if self._query.needs_time else None,
            NO_KEYS,
            no_payload(source),
        )


def _picked(columns: StreamColumns, member: Member) -> StreamColumns:
    """The columns of a stream, selected from those of its input."""
    codes = tuple([columns.codes[slot] for slot in member.slots])
    return StreamColumns(codes, columns.times_us, columns.keys, columns.payload)


def _before(flags: Flags) -> I64:
    """How many of the flagged rows come before each row, int64 (n,)."""
    counts = np.cumsum(flags, dtype=np.int64)
    counts -= flags
    return counts
