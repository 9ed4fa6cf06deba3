"""The router that ends a generation so that the next one can begin (rule P12).

It claims the log as any router does. If the next generation has the same order of event time, that one continues the
order from the last checkpoint. This router then reads the rows that were read but aren't out only to note which ones
were refused, since another query may accept them. If the order differs, it first writes those rows: then, for each
input, all rows before some place are in the log, and none after it. Once results are out for the whole log, it closes
the log and hands over. It can't do so earlier: while frames wait for workers that are gone, only another frame makes
other workers answer instead (P11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import orjson

from spojoin.model import Query
from spojoin.protocol.answered import PassedOrder, RowPlace, before
from spojoin.protocol.generations import Beginning, answered_places
from spojoin.protocol.machine import Action, Emit, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.event_time_order import EventTimeOrder
from spojoin.roles.router.machine import ReportRefusal, RouterMachine, rows_from
from spojoin.roles.router.physical_input import PhysicalInput, rows_before, rows_where
from spojoin.wire.records import Barrier, Place, Rows, SourceState, Takeover


class ClosingRouter(RouterMachine):
    """Ends the generation that began at `beginning`; the next generation continues its order or begins its own."""

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
        """Claim the log, unless another router has closed it."""
        if not self._log.reader.is_closed:
            yield from super().on_chosen()

    def _on_closed(self) -> None:
        self.active = False

    # -- inputs: only rows that were read before, according to the log

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether the input has more rows that earlier routers read and that aren't out."""
        return not self._is_read(self._inputs.input(stream, partition)) and super().wants_rows(stream, partition)

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take the rows that were read before; if the next generation continues the order, only note refused ones."""
        source = self._inputs.input(stream, partition)
        if self._keeps_order:
            self._note_refused(source, rows)
        else:
            yield from super().on_rows(stream, partition, rows_before(rows, self._limit(source)))

    def _note_refused(self, source: PhysicalInput, rows: Rows) -> None:  # P12.11
        """Note rows refused behind the cut: the order passed them, but no generation has answered or counted them.

        The next generation couldn't identify them: the rows whose times make these late may be rows that it refuses.
        Invalid rows that an earlier generation also read, and didn't refuse, count as answered by that generation.
        """
        rows, limit = rows_from(rows, source.ledger.start), self._limit(source)
        for place in ((letter.offset, letter.row) for letter in rows.dead):
            row = (*source.key, *place)
            if place < limit and not self._inputs.answered.took(row):
                self._refused.add(row)
        self._note_late(source, rows_where(rows, before(rows.offsets, rows.rows, limit)))
        self._noted[source.key] = rows.end

    def _note_late(self, source: PhysicalInput, rows: Rows) -> None:
        ordering = self._inputs.ordering
        if not len(rows) or not isinstance(ordering, EventTimeOrder):
            return
        late = rows_where(rows, ordering.are_late(source, rows))
        unanswered = ~self._inputs.answered.rows(*source.key, late.offsets, late.rows, late.times_us)
        places = zip(late.offsets[unanswered].tolist(), late.rows[unanswered].tolist(), strict=True)
        self._refused |= {(*source.key, *place) for place in places}
        source.ledger.note_times(rows)

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """An input that was read as far as before no longer holds up the others, even if more rows follow in it."""
        source = self._inputs.input(stream, partition)
        if self._is_read(source):
            source.is_ended = source.is_over = True
        else:
            super().on_input_end(stream, partition, ended=ended)

    def _is_read(self, source: PhysicalInput) -> bool:
        if not isinstance(self._inputs.ordering, EventTimeOrder):
            return True
        end = self._noted.get(source.key, source.ledger.start) if self._keeps_order else source.ledger.read_end()
        return end >= self._limit(source)

    def _limit(self, source: PhysicalInput) -> Place:
        """How far this generation, or one whose order it continued, had read an input."""
        return max(source.read_before, self._inputs.answered.read_of(*source.key))

    # -- the end

    def on_time(self, now_ms: int) -> Iterator[Action]:  # P12.8
        """Write the remaining rows, close the log, and hand over when results are out."""
        yield from super().on_time(now_ms)
        if self.active and not self._closes and self._has_read_all():
            yield from self.flush()
            if self._is_all_answered():
                self._closes = True
                yield Emit(Topic.FRAMES, 0, self._closing())
        if self._log.reader.closing is not None and not self._handed_over:
            self._handed_over = True
            yield Emit(Topic.GENERATIONS, 0, self._takeover(self._log.reader.closing))

    def _closing(self) -> Barrier:  # P12.9
        """The barrier that ends the log; it also holds what this router has read again."""
        return replace(self._log.barrier(self._log.epoch + 1), closes=True, checkpoint=self._order_so_far())

    def _is_all_answered(self) -> bool:
        is_written = not len(self._frames.queue) and not any(source.ledger.passable for source in self._inputs.opened)
        return is_written and self._pace.result_frame >= self._log.next_frame

    def _has_read_all(self) -> bool:
        declared = {source.key: source for source in self._inputs.opened}
        return all(
            key in declared and (self._is_read(declared[key]) or declared[key].is_ended) for key in self._read_before()
        )

    def _read_before(self) -> dict[tuple[int, int], Place]:
        """How far each input had been read; in arrival order, all rows that were read are in the log."""
        if not isinstance(self._inputs.ordering, EventTimeOrder):
            return {}
        return {**self._inputs.answered.reads, **self._inputs.ordering.reads}

    def _takeover(self, closing: Barrier) -> Takeover:  # P12.10
        return Takeover(
            self._beginning.generation + 1,
            self._beginning.generation,
            self._source(),
            # A generation replaced while filling its windows hasn't reached the index at which the numbers continue.
            tuple(
                max(book.next_place, self._beginning.count(stream)) for stream, book in enumerate(self._frames.books)
            ),
            dict(self._frames.rejected),
            closing.checkpoint or self._order_so_far(),
            max(self._query.order.lateness_us, self._beginning.lateness_us),
            max(self._log.reader.next_seq, self._beginning.numbered),
        )

    def _order_so_far(self) -> bytes:
        """The rows that this generation's order has passed, and those that only earlier ones passed."""
        if not self._keeps_order:
            return b""
        return self._inputs.answered.saved_with(
            None if self._log.last is None else _with_late(self._log.last.checkpoint, self._refused)
        )

    def _source(self) -> SourceState:
        return answered_places(self.sources(), self._beginning, keeps_order=self._keeps_order)


def _with_late(checkpoint: bytes, refused: set[RowPlace]) -> PassedOrder:
    """The content of a checkpoint, with more rows that the order passed without answering them."""
    passed = PassedOrder.from_saved(orjson.loads(checkpoint))
    return replace(passed, late=passed.late | refused)
