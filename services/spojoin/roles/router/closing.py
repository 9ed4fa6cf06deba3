"""The router that ends a generation for another one (rule P12).

It claims the log as any router does. If the next generation has the same order of event time, that one continues the
order from the last checkpoint; what was read and isn't out is read again only to note which rows were refused: another
query may take them. If not, it first writes the rows that were read before: of
each input, all rows before some place are then in the log, and none behind it. Once results are out for all of it, it
closes the log and hands over; not before, because while frames wait for workers that are gone, others stand in only if
a frame makes them (P11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import orjson

from spojoin.model import Query
from spojoin.protocol.answered import PassedOrder, Place, RowPlace, before
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import Action, Emit, ResultPosition
from spojoin.protocol.succession import places
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.event_time import EventTimeOrder
from spojoin.roles.router.machine import RouterMachine, rows_from
from spojoin.roles.router.physical_input import PhysicalInput, only
from spojoin.roles.router.worker_request import ReportRefusal
from spojoin.wire.records import Barrier, Rows, SourceState, Takeover


class ClosingRouter(RouterMachine):
    """Ends the generation that began at `beginning`, for the next one, which goes on in its order or not."""

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        config: RouterConfig,
        report: ReportRefusal,
        beginning: Beginning,
        *,
        keeps_order: bool,
    ) -> None:
        super().__init__(query, result_position, config, report, beginning)
        self._keeps_order = keeps_order
        self._closes = False
        self._handed_over = False
        self._noted: dict[tuple[int, int], Place] = {}
        self._refused: set[RowPlace] = set()

    # -- the log

    def on_chosen(self) -> Iterator[Action]:
        """Claim the log, unless another closed it already."""
        if not self._reader.is_closed:
            yield from super().on_chosen()

    def _on_closed(self) -> None:
        self.active = False

    # -- inputs: only what the log says was read

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Rows that earlier routers had read and that are not out."""
        return not self._is_read(self._input(stream, partition)) and super().wants_rows(stream, partition)

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows as far as they had been read; if the next generation continues the order, note who is refused."""
        source = self._input(stream, partition)
        if self._keeps_order:
            self._note_refused(source, rows)
        else:
            yield from super().on_rows(stream, partition, _before(rows, self._limit(source)[0]))

    def _note_refused(self, source: PhysicalInput, rows: Rows) -> None:
        """Rows refused behind the cut: the order passed them, but nobody has answered or counted them.

        The next generation couldn't say which they were: times that these rows are late behind may be of rows that it
        refuses. Invalid rows that an earlier generation had read, too, and not refused, count as answered by that one.
        """
        rows, limit = rows_from(rows, source.ledger.start), self._limit(source)
        for place in ((letter.offset, letter.row) for letter in rows.dead):
            row = (*source.key, *place)
            if place < limit and not self._answered.took(row):
                self._refused.add(row)
        self._note_late(source, only(rows, before(rows.offsets, rows.rows, limit)))
        self._noted[source.key] = (rows.next_offset, 0)

    def _note_late(self, source: PhysicalInput, rows: Rows) -> None:
        ordering = self._ordering
        if not len(rows) or not isinstance(ordering, EventTimeOrder):
            return
        late = only(rows, ordering.are_late(source, rows))
        unanswered = ~self._answered.rows(*source.key, late.offsets, late.rows, late.times_us)
        places = zip(late.offsets[unanswered].tolist(), late.rows[unanswered].tolist(), strict=True)
        self._refused |= {(*source.key, *place) for place in places}
        source.ledger.have_seen(rows)

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """An input that has been read as far as before no longer holds the others, whatever follows in it."""
        source = self._input(stream, partition)
        if self._is_read(source):
            source.is_ended = source.is_over = True
        else:
            super().on_input_end(stream, partition, ended=ended)

    def _is_read(self, source: PhysicalInput) -> bool:
        if not isinstance(self._ordering, EventTimeOrder):
            return True
        end = self._noted.get(source.key, source.ledger.start) if self._keeps_order else source.ledger.read_end()
        return end >= self._limit(source)

    def _limit(self, source: PhysicalInput) -> Place:
        """How far this generation, or one whose order it continued, had read an input."""
        return max(source.read_before, self._answered.read_of(*source.key))

    # -- the end

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Write what is left, close, and hand over when results are out."""
        yield from super().on_time(now_ms)
        if self.active and not self._closes and self._has_read_all():
            yield from self.flush()
            if self._is_all_answered():
                self._closes = True
                yield Emit(Topic.FRAMES, 0, self._closing())
        if self._reader.closing is not None and not self._handed_over:
            self._handed_over = True
            yield Emit(Topic.GENERATIONS, 0, self._takeover(self._reader.closing))

    def _closing(self) -> Barrier:
        """Ends the log; who finds it closed knows from it what this router has read again."""
        return replace(self._barrier(self._epoch + 1), closes=True, checkpoint=self._order_so_far())

    def _is_all_answered(self) -> bool:
        is_written = not len(self._queue) and not any(source.ledger.passable for source in self._inputs)
        return is_written and self._result_frame >= self._next_frame

    def _has_read_all(self) -> bool:
        declared = {source.key: source for source in self._inputs}
        return all(
            key in declared and (self._is_read(declared[key]) or declared[key].is_ended) for key in self._read_before()
        )

    def _read_before(self) -> dict[tuple[int, int], Place]:
        """How far each input had been read; by arrival nothing that was read waits outside the log."""
        if not isinstance(self._ordering, EventTimeOrder):
            return {}
        return {**self._answered.reads, **self._ordering.reads}

    def _takeover(self, closing: Barrier) -> Takeover:
        return Takeover(
            self._beginning.generation + 1,
            self._beginning.generation,
            self._source(),
            # A generation replaced while it filled its windows has not reached the index at which the numbers continue.
            tuple(max(book.place, self._beginning.count(stream)) for stream, book in enumerate(self._books)),
            dict(self._rejected),
            closing.checkpoint or self._order_so_far(),
            max(self._query.lateness_us, self._beginning.lateness_us),
            max(self._reader.next_seq, self._beginning.numbered),
        )

    def _order_so_far(self) -> bytes:
        """What this generation's order passed, with what only earlier ones had."""
        if not self._keeps_order:
            return b""
        return self._answered.saved_with(
            None if self._last is None else _with_late(self._last.checkpoint, self._refused)
        )

    def _source(self) -> SourceState:
        return places(self.sources(), self._beginning, keeps_order=self._keeps_order)


def _with_late(checkpoint: bytes, refused: set[RowPlace]) -> PassedOrder:
    """What a checkpoint says, with more rows that the order passed without answering them."""
    passed = PassedOrder.of(orjson.loads(checkpoint))
    return replace(passed, late=passed.late | refused)


def _before(rows: Rows, offset: int) -> Rows:
    """Rows and dead letters of messages before an offset."""
    dead = [letter for letter in rows.dead if letter.offset < offset]
    kept = only(rows, rows.offsets < offset)
    return replace(kept, dead=dead, next_offset=min(rows.next_offset, offset))
