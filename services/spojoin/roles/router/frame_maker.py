"""Makes frames of ordered rows: cuts them off the queue, slices them by stream, adds answers, chains them to the log.

See rules P3 to P5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spojoin.arrays import I64, U8
from spojoin.evaluation.choices import stand_in
from spojoin.kernels.segments import run_starts
from spojoin.model import Query
from spojoin.protocol.acceptance import chain
from spojoin.protocol.frame_evaluation import Guide, first_reached
from spojoin.protocol.generations import Beginning
from spojoin.protocol.grid import GridOfFrame
from spojoin.protocol.machine import Action, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.router.asking import Asking, answers_outside, silent_answers
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.input_order import RouterInputs
from spojoin.roles.router.queue import Cut, FrameCutter, OrderedQueue, Origins
from spojoin.roles.router.router_log import RouterLog
from spojoin.roles.router.slicing import FrameNumbers, FrameRows, Slicer
from spojoin.roles.router.spread_keys import SpreadKeys
from spojoin.roles.router.stream_book import StreamBook
from spojoin.roles.router.table_versions import NO_INPUT, RIGHT, TableSide
from spojoin.wire.records import NONE_SILENT, Batch, DeadLetter, Frame

_NO_BITS, _NO_NUMBERS = np.empty(0, np.uint8), np.empty(0, np.int64)
_NO_ORIGINS = Origins(_NO_NUMBERS, _NO_NUMBERS, _NO_BITS, _NO_NUMBERS, _NO_BITS, _NO_BITS)


class FrameMaker:
    """Makes the log's next frame; its state of streams, open rows, names and tables follows from log and batches.

    rejected: refused rows by reason, cumulative
    """

    def __init__(self, query: Query, config: RouterConfig, beginning: Beginning) -> None:
        self.queue = OrderedQueue(len(query.inputs))
        self.books = [StreamBook(query.window_over(stream), config) for stream in range(len(query.streams))]
        self.asking = Asking(query, self.queue, self.books, config.frame_tuples) if query.asks else None
        self.slicer = Slicer(query, self.queue, self.books, self.asking)
        self.table = (
            TableSide(self.queue, self.books[RIGHT], self.slicer.streams_fed_by(RIGHT)) if query.has_table else None
        )
        self.guide = Guide() if (other := stand_in(query)) is None else other.guide(query)
        self.spread = SpreadKeys(query, spreads=config.columns_by_key and config.columns > 1)
        self.inputs = RouterInputs(query, self.queue, config.frame_tuples, beginning, self.slicer.streams_fed_by)
        self.rejected: dict[str, int] = dict(beginning.rejected)
        self._cutter = FrameCutter(
            self.queue, self.books, query.fed_by, config.frame_tuples, by_time=query.window.needs_time
        )
        self._beginning = beginning
        self._is_shared = query.shares_input
        self._frame_tuples = config.frame_tuples

    # -- following the log

    @property
    def is_restored(self) -> bool:
        return self.books[0].is_restored

    def restore_batch(self, batch: Batch) -> None:
        """Note a sealed batch that the log may no longer hold."""
        self.books[batch.stream].restore_batch(batch)
        self.slicer.restore_batch(batch)
        if self.asking is not None:
            self.asking.restore_batch(batch)

    def finish_restore(self) -> None:
        """End restoring: all batches from before the log's first frame were read; the log holds all others."""
        for book in self.books:
            book.finish_restore()
        if self.asking is not None:
            self.asking.finish_restore()

    def begin_at(self, first_indexes: Sequence[int]) -> None:
        """Number the streams' tuples from `first_indexes` on, since the log has no frame yet."""
        for book, first in zip(self.books, first_indexes, strict=False):
            book.begin_at(first)
        if self.asking is not None:
            self.asking.begin_log()

    def apply_frame(self, frame: Frame, *, is_first: bool, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        for stream, (book, piece) in enumerate(zip(self.books, frame.slices, strict=True)):
            if is_first:
                book.start_at(piece)
            book.apply_slice(frame.frame_id, piece)
            book.note_lower(first_reached(frame, stream))
        if self.asking is not None:
            self.asking.apply_frame(frame, is_written_here=is_written_here)
        if self.table is not None:
            self.table.apply_checkpoint(frame.checkpoint)
        self.slicer.apply_frame(frame, is_written_here=is_written_here)
        self.guide.follow_frame(frame)
        self.spread.follow_frame(frame)
        self.rejected = dict(frame.rejected)

    # -- when to write a frame, and how many rows it takes

    @property
    def has_table_due(self) -> bool:
        return self.table is not None and self.table.is_due

    def has_answers_due(self) -> bool:
        """Whether rows close without further rows: because of the last row, or of the event time reached."""
        if self.asking is None or len(self.queue):
            return False
        return self.asking.has_answers_due(self.inputs.ordering.watermark_us())

    def is_worth_a_frame(self) -> bool:
        """Whether a frame is full, or rows without numbers, whose progress the log must note, leave no more room."""
        is_full = self.queue.numbered >= self._frame_tuples or len(self.queue) >= self.inputs.pending_max
        return is_full or self.has_table_due

    def cut_frame(self) -> Cut:
        """How much of the queue the next frame takes."""
        if self.has_table_due:
            return self.cut_without_rows()
        cut = self._cutter.cut_frame()
        if self.table is not None:
            cut = self.table.fit_cut(cut)
        return cut if self.asking is None else self.asking.fit_cut(cut)

    def cut_without_rows(self) -> Cut:
        if self.asking is None:
            return self._cutter.cut_nothing()
        return self.asking.cut_without_rows(None if len(self.queue) else self.inputs.ordering.watermark_us())

    # -- the frame

    def frame_and_letters(self, cut: Cut, log: RouterLog, grid: GridOfFrame) -> Iterator[Action]:
        """Emit the dead letters of rows refused before the cut, and last the frame itself."""
        # slice: remove the rows from the queue, and split them by stream
        origins = self.queue.head(cut.count) if cut.count else _NO_ORIGINS
        taken = self.slicer.take_rows(origins)
        if self.table is not None:
            self.table.note_rows_taken(cut)
        slices, closings = self.slicer.slice_rows(taken, cut, FrameNumbers(log.next_frame, log.next_seq))
        unjoined = self.slicer.unjoined(taken)
        if cut.count:
            self.queue.drop(cut.count)
            if (last := int(origins.inputs[-1])) != NO_INPUT:
                source = self.inputs.opened[last]
                self.inputs.ordering.note_last_row(source, int(origins.ids[-1]), taken.last_time_us())

        # answer: which answers other generations have given, or give
        if self._beginning.own is not None:
            numbers = range(log.next_seq, log.next_seq + origins.numbers)
            silent = answers_outside(self._beginning.own, numbers, closings)
        else:
            silent = self._silent(taken)
            silent = silent_answers(silent, slices, closings) if closings else silent

        # refuse: dead letters go out with the frame that passes their place
        yield from self._letters(origins)
        for letter in [] if self.table is None else self.table.take_letters():
            self._count_rejected(letter)
            yield Emit(Topic.DEAD, letter.stream, letter)

        # chain: where reading of the inputs continues after this frame, and what else a successor needs
        read = {source.key: source.ledger.position() for source in self.inputs.opened}
        table = self.table
        sources = {**log.sources(), **read, **({} if table is None else table.read)}
        checkpoint = self.inputs.ordering.checkpoint() if table is None else table.checkpoint(len(slices[RIGHT]))
        produced_ms, runs = _run_lengths(origins.produced_ms[slice(None) if origins.is_plain else origins.numbered])
        count = origins.numbers
        frame = Frame(
            epoch=log.epoch,
            frame_id=log.next_frame,
            first_seq=log.next_seq,
            count=count,
            slices=slices,
            workers=grid.workers,
            previous_link=log.link,
            link=chain(log.link, log.next_frame, sources, checkpoint),
            source=sources,
            checkpoint=checkpoint,
            rejected=dict(self.rejected),
            produced_ms=produced_ms,
            produced_runs=runs,
            guidance=self.guide.guidance(count, slices),
            fingerprint=self._beginning.fingerprint,
            silent=silent,
            unjoined=unjoined,
            is_shared=self._is_shared,
            closings=closings,
            columns=grid.columns,
            columns_by_key=grid.by_key,
            spread=self.spread.of_next_frame(slices),
        )
        yield Emit(Topic.FRAMES, 0, frame)

    def _silent(self, taken: FrameRows) -> U8:  # P12.13
        """Which numbered rows an earlier generation has answered (P12): uint8 (n,), or empty if none."""
        answered = self.inputs.answered
        due = [s for s in self.inputs.opened if s.ledger.position_place < answered.end_of(*s.key)]
        if not due:
            return NONE_SILENT
        silent = np.zeros(len(taken.origins), np.uint8)
        for source in due:
            own = np.flatnonzero(taken.origins.inputs == source.index)
            offsets, rows = source.ledger.places_of(taken.origins.ids[own])
            silent[own] = answered.rows(*source.key, offsets, rows, taken.times_us(source.stream, own))
        numbered = silent[taken.origins.numbered]
        return numbered if numbered.any() else NONE_SILENT

    def _letters(self, origins: Origins) -> Iterator[Action]:
        opened = self.inputs.opened
        is_only = len(opened) == 1 and self.table is None
        for source in opened:
            ids = origins.ids if is_only else origins.ids[origins.inputs == source.index]
            cut = self.inputs.answered.cut_of(*source.key)
            for letter in source.ledger.release_rows(ids):
                if (letter.offset, letter.row) >= cut:  # letters before the cut were counted by an earlier generation
                    self._count_rejected(letter)
                    yield Emit(Topic.DEAD, letter.stream, letter)

    def _count_rejected(self, letter: DeadLetter) -> None:
        self.rejected[letter.reason] = self.rejected.get(letter.reason, 0) + 1


def _run_lengths(values: I64) -> tuple[I64, np.ndarray]:
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.uint32)
    if (values == values[0]).all():  # the usual case
        return values[:1].copy(), np.array([len(values)], np.uint32)
    starts = run_starts(values)
    return values[starts], np.diff(np.append(starts, len(values))).astype(np.uint32)
