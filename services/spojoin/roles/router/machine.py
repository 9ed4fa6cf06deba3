"""The router's state machine: inputs in, frames out (rules P1 to P5 of the protocol page).

It starts by reading the log, claims it by a barrier with a new epoch, and goes on from the state that the log has at
its barrier: never from what it remembers or from consumer-group commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from spojoin.errors import Fenced
from spojoin.kernels.segments import run_starts
from spojoin.model import Order, Query
from spojoin.protocol.acceptance import LogFollower, chain
from spojoin.protocol.answered import before
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import Action, Emit, Holder, InputMachine, ResultPosition, TableRows, Trim
from spojoin.protocol.parts import first_reached
from spojoin.protocol.topology import Topic
from spojoin.published.guides import guide_of
from spojoin.roles.router.asking import Asking, outside, silent_answers
from spojoin.roles.router.backfill import BackfillOrder
from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.cutting import Cut, FrameCutter
from spojoin.roles.router.event_time import EventTimeOrder, MergeLimits
from spojoin.roles.router.ledger import InputLedger
from spojoin.roles.router.ordering import ArrivalOrder, Ordering
from spojoin.roles.router.physical_input import PhysicalInput, only, start_of
from spojoin.roles.router.queue import OrderedQueue, Origins
from spojoin.roles.router.slicing import Coming, Slicer, Taken
from spojoin.roles.router.table_side import NO_INPUT, RIGHT, TableSide
from spojoin.roles.router.whole import WholeLog
from spojoin.roles.router.worker_request import ReportRefusal, WorkerRequest
from spojoin.wire.records import (
    I64,
    NONE_SILENT,
    U8,
    Barrier,
    Batch,
    Closing,
    DeadLetter,
    Frame,
    HotKeys,
    Record,
    Rows,
    SourceState,
    StreamSlice,
    Unjoined,
    WorkerCount,
)

#: Frames' worth of rows that may wait in order; more would only add latency.
QUEUE_FRAMES = 4
#: A frame that isn't full goes out at once while no other waits for its results, and after `linger_ms` while no more
#: than these do. Else it lingers LINGER_STRETCH times as long, since a frame costs every service most of a millisecond
#: whatever its size.
FRAMES_UNDER_WAY_FEW = 4
LINGER_STRETCH = 10


FROM_NOTHING = Beginning()


class RouterMachine(InputMachine):
    """Orders rows, numbers them and writes frames; see the module. `beginning` is where its generation began."""

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        config: RouterConfig,
        report: ReportRefusal = lambda _: None,
        beginning: Beginning = FROM_NOTHING,
    ) -> None:
        self.active = False
        self._query = query
        self._config = config
        self._beginning = beginning
        self._answered = beginning.answered()
        self._reader = LogFollower()
        self._books = [StreamBook(query.window_over(stream), config) for stream in range(len(query.streams))]
        self._queue = OrderedQueue(len(query.inputs))
        self._asking = Asking(query, self._queue, self._books, config.frame_tuples) if query.asks else None
        self._slicer = Slicer(query, self._queue, self._books, self._asking)
        self._table = TableSide(self._queue, self._books[RIGHT], self._slicer.mask(RIGHT)) if query.has_table else None
        self._cutter = FrameCutter(
            self._queue, self._books, query.fed_by, config.frame_tuples, is_time=query.window.is_time
        )
        self._declared: list[tuple[int, int]] = []
        self._inputs: list[PhysicalInput] = []
        self._ordering: Ordering = ArrivalOrder(self._queue, len(query.inputs))
        self._last: Frame | None = None
        self._plan_version = -1
        self._request = WorkerRequest(config, report)
        self._guide = guide_of(query)
        self._rejected: dict[str, int] = dict(beginning.rejected)
        self._result_frame = result_position.frame_id
        self._whole = WholeLog(len(query.streams), result_position)
        self._claimed = -1
        self._now_ms = 0
        self._waiting_since_ms: int | None = None
        self._epoch = -1
        self._next_frame = 0
        self._next_seq = 0
        self._link = 0

    # -- the log

    @property
    def _is_restored(self) -> bool:
        return self._books[0].is_restored

    def wants(self, topic: Topic, partition: int) -> bool:
        """The log is read always; batches only until those from before the log's first frame are here."""
        return topic is not Topic.BATCHES or not self._is_restored

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Follow the log, restore batches, note plans and requested worker counts."""
        if isinstance(record, Frame | Barrier):
            self._follow(record)
        elif isinstance(record, Batch) and not self._is_restored:
            self._whole.note_batch(record)
            self._books[record.stream].restore(record)
            self._slicer.restore(record)
            if self._asking is not None:
                self._asking.restore(record)
        elif isinstance(record, HotKeys) and record.version > self._plan_version:
            self._plan_version = record.version
            self._guide.hear(record)
        elif isinstance(record, WorkerCount):
            self._request.hear(record)
        yield from self._write_worker_count()

    def _write_worker_count(self) -> Iterator[Action]:
        """P11: a changed worker count enters the log at once, in an empty frame that needs no credit.

        Frames under way may wait for workers that are gone; this frame makes those that are left answer instead.
        """
        if self.active and self._last is not None and self._last.workers != self._request.workers:
            yield from self._write(self._without_rows())

    def _follow(self, record: Frame | Barrier) -> None:
        accepted = self._reader.accept(record)
        if self._reader.is_closed:
            self._on_closed()
        elif self.active:
            if self._reader.epoch > self._epoch:
                raise Fenced("another router has claimed the log; this one ends")
        elif accepted and isinstance(record, Frame):
            self._apply(record)
        elif accepted and isinstance(record, Barrier) and self._claimed >= 0:
            self._own_or_lost(record)
        elif isinstance(record, Barrier) and record.router_id == self._config.router_id:
            raise Fenced("another router claimed this epoch first; this one ends")

    def _on_closed(self) -> None:
        raise Fenced("this generation of the query has ended, another one goes on; this router ends")

    def _own_or_lost(self, barrier: Barrier) -> None:
        if barrier.router_id == self._config.router_id:
            self._activate()
        else:
            raise Fenced("another router claimed the log while this one was starting; this one ends")

    def _apply(self, frame: Frame) -> None:
        self._whole.note_frame(frame)
        for stream, (book, piece) in enumerate(zip(self._books, frame.slices, strict=True)):
            if self._last is None:
                book.adopt(piece)
            book.apply(frame.frame_id, piece)
            book.note_lower(first_reached(frame, stream))
        if self._asking is not None:
            self._asking.note(frame, is_written_here=self.active)
        if self._table is not None:
            self._table.note(frame.checkpoint)
        self._slicer.note(frame, is_written_here=self.active)
        self._guide.note(frame)
        self._last = frame
        self._rejected = dict(frame.rejected)

    def on_caught_up(self) -> Iterator[Action]:
        """All batches from before the log's first frame are here; the log tells of all others."""
        for book in self._books:
            book.finish_restore()
        if self._asking is not None:
            self._asking.finish_restore()
        yield from ()

    def on_chosen(self) -> Iterator[Action]:
        """Claim the log (P2). Raises Stop where it has lost what results need (P9)."""
        self._whole.check(self._last, self._reader.next_frame)
        self._claimed = self._reader.epoch + 1
        yield Emit(Topic.FRAMES, 0, self._barrier(self._claimed))

    def _barrier(self, epoch: int) -> Barrier:
        beginning = self._beginning
        return Barrier(
            epoch,
            self._config.router_id,
            beginning.fingerprint,
            first_indexes=beginning.first_indexes,
            first_seq=beginning.first_seq,
        )

    def _activate(self) -> None:
        self._epoch = self._reader.epoch
        self._next_frame, self._next_seq = self._reader.next_frame, self._reader.next_seq
        self._link = self._reader.link
        if self._last is None:
            for book, first in zip(self._books, self._reader.first_indexes, strict=False):
                book.begin_at(first)
            if self._asking is not None:
                self._asking.begin()
        if self._query.order is Order.EVENT_TIME:
            self._ordering = self._event_time_order()
        elif self._beginning.cut:
            self._ordering = BackfillOrder(
                self._ordering, self._queue, self._inputs, len(self._query.inputs), self._pending_max, self._answered
            )
        self.active = True
        self._open_inputs()

    def _event_time_order(self) -> EventTimeOrder:
        return EventTimeOrder(
            self._queue,
            self._inputs,
            len(self._query.inputs),
            MergeLimits(self._query.lateness_us, self._query.idle_timeout_us, self._pending_max),
            b"" if self._last is None else self._last.checkpoint,
            self._answered,
        )

    @property
    def _pending_max(self) -> int:
        return QUEUE_FRAMES * self._config.frame_tuples

    # -- inputs

    def sources(self) -> SourceState:
        """Where to resume each input that a frame has consumed from; valid once active (P4)."""
        return self._beginning.starts if self._last is None else self._last.source

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Declare the physical inputs, (stream, partition); may come again with more."""
        self._declared = inputs
        if self.active:
            self._open_inputs()

    def _open_inputs(self) -> None:
        known = {source.key for source in self._inputs}
        for stream, partition in self._declared:
            if (stream, partition) not in known:
                self._open_input(stream, partition)

    def _open_input(self, stream: int, partition: int) -> None:
        ledger = InputLedger(start_of(self.sources(), stream, partition))
        is_of_only = len(self._query.inputs) == 1
        source = PhysicalInput(stream, partition, ledger, len(self._inputs), self._slicer.mask(stream), is_of_only)
        self._inputs.append(source)
        if isinstance(self._ordering, EventTimeOrder):
            self._ordering.adopt(source)

    def _input(self, stream: int, partition: int) -> PhysicalInput:
        return next(source for source in self._inputs if source.key == (stream, partition))

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of that input can be taken now."""
        if not self.active or len(self._queue) >= self._pending_max:
            return False
        if self._table is not None and not self._table.is_offered:
            return False
        return self._ordering.wants(self._input(stream, partition))

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input, in its order."""
        source = self._input(stream, partition)
        source.is_ended = source.is_over = False
        self._ordering.take(source, rows_from(rows, source.ledger.start))
        self._ordering.advance()
        yield from self._drain(force=False)

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table, once active (P17); one that the log ends with is left as it is."""
        assert self._table is not None, "only a query with a table is given one"
        self._table.offer(version, self.sources())
        yield from self._drain(force=False)

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """Everything in the input has been read; ended: False where something waits to be read, but is not wanted."""
        source = self._input(stream, partition)
        source.is_ended = ended
        if ended and isinstance(self._ordering, EventTimeOrder):
            self._ordering.note_end(source)

    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the input would count as idle, if it is still at its end."""
        return isinstance(self._ordering, EventTimeOrder) and self._ordering.doubts_end(self._input(stream, partition))

    def holder(self) -> Holder | None:
        """Which input holds rows back: by event time, or as a table without a version."""
        if not self.active:
            return None
        if self._table is not None and not self._table.is_offered:
            return Holder(RIGHT, None, 0, None, 0)
        if not isinstance(self._ordering, EventTimeOrder):
            return None
        return self._ordering.holder(are_open=self._asking is not None and self._asking.wait_for_time)

    # -- frames

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Close a frame that has lingered; merge without inputs that are idle."""
        self._now_ms = now_ms
        if not self.active:
            return
        self._ordering.advance()
        yield from self._drain(force=self._lingered())

    def flush(self) -> Iterator[Action]:
        """The inputs have ended for good: write everything that is left."""
        for source in self._inputs:
            source.is_over = True
        self._ordering.advance()
        yield from self._drain(force=True)

    def finish(self) -> Iterator[Action]:
        """The inputs have ended, and no row waits for partners any more: write everything, and answer all."""
        yield from self.flush()
        if self._asking is not None:
            self._asking.end(ended=True)
            yield from self.flush()
            self._asking.end(ended=False)

    @property
    def is_lingering(self) -> bool:
        """Whether rows, the progress of inputs, or answers that are due, wait for a frame."""
        waits = len(self._queue) > 0 or any(s.ledger.passable for s in self._inputs) or self._has_due()
        return self.active and waits

    def _has_due(self) -> bool:
        """Whether rows close without further rows: those behind the last row, or behind the event time reached."""
        if self._asking is None or len(self._queue):
            return False
        return self._asking.has_due(self._ordering.watermark_us())

    def _lingered(self) -> bool:
        if not self.is_lingering:
            self._waiting_since_ms = None
            return False
        if self._waiting_since_ms is None:
            self._waiting_since_ms = self._now_ms
        return self._now_ms - self._waiting_since_ms >= self._patience_ms()

    def _patience_ms(self) -> int:
        """As in Nagle's algorithm: small frames while results keep up, larger ones while others are under way."""
        under_way = self._frames_under_way()
        if under_way == 0:
            return 0
        return self._config.linger_ms * (1 if under_way <= FRAMES_UNDER_WAY_FEW else LINGER_STRETCH)

    def _drain(self, *, force: bool) -> Iterator[Action]:
        while self._has_credit() and self._is_worth_a_frame():
            yield from self._write(self._cut())
            self._waiting_since_ms = None  # what is left has come since
        while force and self._has_credit() and (len(self._queue) or self._has_table_due()):
            yield from self._write(self._cut())
        while force and self._has_credit() and self._has_due():
            yield from self._write(self._without_rows())
        if force and self._has_credit() and any(s.ledger.passable for s in self._inputs):
            yield from self._write(self._without_rows())
        if force and not len(self._queue):
            self._waiting_since_ms = None

    def _has_table_due(self) -> bool:
        return self._table is not None and self._table.is_due

    def _cut(self) -> Cut:
        if self._has_table_due():
            return self._without_rows()
        cut = self._cutter.cut()
        if self._table is not None:
            cut = self._table.fitted(cut)
        return cut if self._asking is None else self._asking.fitted(cut)

    def _without_rows(self) -> Cut:
        if self._asking is None:
            return self._cutter.nothing()
        return self._asking.without_rows(None if len(self._queue) else self._ordering.watermark_us())

    def _is_worth_a_frame(self) -> bool:
        """Whether a frame is full; or rows that take no number, whose progress the log notes, leave no more room."""
        is_full = self._queue.numbered >= self._config.frame_tuples or len(self._queue) >= self._pending_max
        return is_full or self._has_table_due()

    def _has_credit(self) -> bool:
        return self._frames_under_way() < self._config.credits_frames

    def _frames_under_way(self) -> int:
        return self._next_frame - self._result_frame

    def _write(self, cut: Cut) -> Iterator[Action]:
        origins = self._queue.head(cut.count) if cut.count else _NO_ORIGINS
        taken = self._slicer.take(origins)
        if self._table is not None:
            self._table.takes(cut)
        slices, closings = self._slicer.slices(taken, cut, Coming(self._next_frame, self._next_seq))
        unjoined = self._slicer.unjoined(taken)
        if cut.count:
            self._queue.drop(cut.count)
            if (last := int(origins.inputs[-1])) != NO_INPUT:
                self._ordering.goes_out(self._inputs[last], int(origins.ids[-1]), taken.last_time_us())
        silent = self._silent_answers(taken, slices, closings)
        yield from self._letters(origins)
        yield from self._table_letters()
        frame = self._frame(origins, slices, closings, silent, unjoined)
        self._apply(frame)
        self._next_frame += 1
        self._next_seq += frame.count
        self._link = frame.link
        yield Emit(Topic.FRAMES, 0, frame)
        if self._table is not None:
            self._table.begin()

    def _letters(self, origins: Origins) -> Iterator[Action]:
        for source in self._inputs:
            is_only = len(self._inputs) == 1 and self._table is None
            ids = origins.ids if is_only else origins.ids[origins.inputs == source.index]
            cut = self._answered.cut_of(*source.key)
            for letter in source.ledger.release(ids):
                if (letter.offset, letter.row) >= cut:  # letters before the cut were counted by an earlier generation
                    self._count_rejected(letter)
                    yield Emit(Topic.DEAD, letter.stream, letter)

    def _table_letters(self) -> Iterator[Action]:
        for letter in [] if self._table is None else self._table.take_letters():
            self._count_rejected(letter)
            yield Emit(Topic.DEAD, letter.stream, letter)

    def _silent_answers(self, taken: Taken, slices: tuple[StreamSlice, ...], closings: tuple[Closing, ...]) -> U8:
        """Which answers of the next frame others give, uint8 (answers,), or empty if they give none."""
        own = self._beginning.own
        if own is not None:
            return outside(own, range(self._next_seq, self._next_seq + taken.origins.numbers), closings)
        silent = self._silent(taken)
        return silent_answers(silent, slices, closings) if closings else silent

    def _silent(self, taken: Taken) -> U8:
        """Which rows an earlier generation has answered (P12): uint8 (n,) of those numbered, or empty if none are."""
        due = [s for s in self._inputs if s.ledger.position_place < self._answered.end_of(*s.key)]
        if not due:
            return NONE_SILENT
        silent = np.zeros(len(taken.origins), np.uint8)
        for source in due:
            self._silence(silent, taken, source)
        numbered = silent[taken.origins.numbered]
        return numbered if numbered.any() else NONE_SILENT

    def _silence(self, silent: U8, taken: Taken, source: PhysicalInput) -> None:
        own = np.flatnonzero(taken.origins.inputs == source.index)
        offsets, rows = source.ledger.places(taken.origins.ids[own])
        silent[own] = self._answered.rows(*source.key, offsets, rows, taken.times_us(source.stream, own))

    def _count_rejected(self, letter: DeadLetter) -> None:
        self._rejected[letter.reason] = self._rejected.get(letter.reason, 0) + 1

    def _frame(
        self,
        origins: Origins,
        slices: tuple[StreamSlice, ...],
        closings: tuple[Closing, ...],
        silent: U8,
        unjoined: tuple[Unjoined, ...],
    ) -> Frame:
        read = {source.key: source.ledger.position() for source in self._inputs}
        table = self._table
        source = {**self.sources(), **read, **({} if table is None else table.read)}
        checkpoint = self._ordering.checkpoint() if table is None else table.checkpoint(len(slices[RIGHT]))
        produced_ms, runs = _run_lengths(origins.produced_ms[slice(None) if origins.is_plain else origins.numbered])
        count = origins.numbers
        return Frame(
            epoch=self._epoch,
            frame_id=self._next_frame,
            first_seq=self._next_seq,
            count=count,
            slices=slices,
            workers=self._request.workers,
            previous_link=self._link,
            link=chain(self._link, self._next_frame, source, checkpoint),
            source=source,
            checkpoint=checkpoint,
            rejected=dict(self._rejected),
            produced_ms=produced_ms,
            produced_runs=runs,
            guidance=self._guide.guidance(count, slices),
            fingerprint=self._beginning.fingerprint,
            silent=silent,
            unjoined=unjoined,
            is_shared=self._query.shares_input,
            closings=closings,
        )

    # -- progress

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Results are out up to here: as many more frames may follow (back-pressure by credits)."""
        self._result_frame = max(self._result_frame, result_position.frame_id)
        return []

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return len(self._queue) + sum(s.pending() for s in self._inputs) + sum(b.state_tuples() for b in self._books)


_NO_BITS, _NO_NUMBERS = np.empty(0, np.uint8), np.empty(0, np.int64)
_NO_ORIGINS = Origins(_NO_NUMBERS, _NO_NUMBERS, _NO_BITS, _NO_NUMBERS, _NO_BITS, _NO_BITS)


def rows_from(rows: Rows, start: tuple[int, int]) -> Rows:
    """Rows and dead letters from a place on: a restart reads the message at its place again from its first row (P4)."""
    offset, row = start
    if row == 0 or not (len(rows) or rows.dead) or _first_offset(rows) > offset:
        return rows
    kept = ~before(rows.offsets, rows.rows, start)
    dead = [letter for letter in rows.dead if (letter.offset, letter.row) >= start]
    return replace(only(rows, kept), dead=dead)


def _first_offset(rows: Rows) -> int:
    return min([letter.offset for letter in rows.dead[:1]] + [int(offset) for offset in rows.offsets[:1]])


def _run_lengths(values: I64) -> tuple[I64, np.ndarray]:
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.uint32)
    if (values == values[0]).all():  # mostly
        return values[:1].copy(), np.array([len(values)], np.uint32)
    starts = run_starts(values)
    return values[starts], np.diff(np.append(starts, len(values))).astype(np.uint32)
