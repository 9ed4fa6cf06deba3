"""The router's state machine: inputs in, frames out (rules P1 to P5 of the protocol page).

It first reads the log, claims it with a barrier of a new epoch, and continues from the log's state at that barrier,
never from its own memory or from consumer-group commits. Then rows come in by `on_rows`: they enter the order of all
inputs, wait in the queue until they are worth a frame, and go out as that frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spojoin.errors import Fenced
from spojoin.model import Query
from spojoin.protocol.generations import Beginning
from spojoin.protocol.grid import GridOfFrame
from spojoin.protocol.machine import Action, Emit, Holder, InputMachine, ResultPosition, TableRows, Trim
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.event_time_order import EventTimeOrder
from spojoin.roles.router.frame_maker import FrameMaker
from spojoin.roles.router.physical_input import rows_behind
from spojoin.roles.router.queue import Cut
from spojoin.roles.router.router_log import RouterLog
from spojoin.roles.router.table_versions import RIGHT
from spojoin.wire.records import Barrier, Batch, Frame, HotKeys, Record, Rows, SourceState, WorkerCount

FROM_NOTHING = Beginning()


class RouterMachine(InputMachine):
    """Orders and numbers rows, and writes frames; see the module. `beginning`: where its generation began."""

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
        self._beginning = beginning
        self._router_id = config.router_id
        self._log = RouterLog(config.router_id, beginning, len(query.streams), result_position)
        self._frames = FrameMaker(query, config, beginning)
        self._inputs = self._frames.inputs
        self._pace = FramePace(config, result_position.frame_id)
        self._request = WorkerRequest(config, report)
        self._plan_version = -1

    # -- the log

    def wants(self, topic: Topic, partition: int) -> bool:
        """Always for the log; for batches, only until those from before the log's first frame were read."""
        return topic is not Topic.BATCHES or not self._frames.is_restored

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Follow the log, restore batches, and note plans and requested worker counts."""
        if isinstance(record, Frame | Barrier):
            self._follow_log(record)
        elif isinstance(record, Batch) and not self._frames.is_restored:
            self._log.whole.note_batch(record)
            self._frames.restore_batch(record)
        elif isinstance(record, HotKeys) and record.version > self._plan_version:
            self._plan_version = record.version
            self._frames.guide.accept_hot_keys(record)
            self._frames.spread.accept_hot_keys(record)
        elif isinstance(record, WorkerCount):
            self._request.accept_count(record)
        yield from self._write_grid()

    def _write_grid(self) -> Iterator[Action]:  # P11.3, P19.5
        """Write a changed worker count, or changed columns, into the log at once, in an empty frame without credit.

        Frames under way may wait for workers that are gone; this frame makes the remaining workers answer instead.
        """
        last = self._log.last
        if self.active and last is not None and GridOfFrame.said_by(last) != self._request.grid:
            yield from self._write_frame(self._frames.cut_without_rows())

    def _follow_log(self, record: Frame | Barrier) -> None:
        log = self._log
        accepted = log.reader.accept(record)
        if log.reader.is_closed:
            self._on_closed()
        elif self.active:
            if log.reader.epoch > log.epoch:
                raise Fenced("another router has claimed the log; this one ends")
        elif accepted and isinstance(record, Frame):
            self._apply_frame(record)
        elif accepted and isinstance(record, Barrier) and log.claimed >= 0:
            if record.router_id != self._router_id:
                raise Fenced("another router claimed the log while this one was starting; this one ends")
            self._activate()
        elif isinstance(record, Barrier) and record.router_id == self._router_id:
            raise Fenced("another router claimed this epoch first; this one ends")

    def _on_closed(self) -> None:
        raise Fenced("this generation of the query has ended, another one goes on; this router ends")

    def _apply_frame(self, frame: Frame) -> None:
        self._log.whole.note_frame(frame)
        self._frames.apply_frame(frame, is_first=self._log.last is None, is_written_here=self.active)
        self._log.last = frame

    def on_caught_up(self) -> Iterator[Action]:
        """End restoring: all batches from before the log's first frame were read; the log holds all others."""
        self._frames.finish_restore()
        yield from ()

    def on_chosen(self) -> Iterator[Action]:  # P2.1
        """Claim the log (P2). Raises Stop if it has lost records that results need (P9)."""
        yield Emit(Topic.FRAMES, 0, self._log.claim_barrier())

    def _activate(self) -> None:
        self._log.adopt_claim()
        if self._log.last is None:
            self._frames.begin_at(self._log.reader.first_indexes)
        self._inputs.choose_order(self._log.last)
        self.active = True
        self._inputs.open_declared(self.sources())

    # -- the path of a row

    def sources(self) -> SourceState:
        """Where to resume each input from which a frame took rows; valid once active (P4)."""
        return self._log.sources()

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Declare the physical inputs, (stream, partition); later calls may add more."""
        self._inputs.declared = inputs
        if self.active:
            self._inputs.open_declared(self.sources())

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of the input can be taken now."""
        if not self.active or len(self._frames.queue) >= self._inputs.pending_max or self._awaits_table:
            return False
        return self._inputs.ordering.wants_rows(self._inputs.input(stream, partition))

    @property
    def _awaits_table(self) -> bool:  # P17.5
        return self._frames.table is not None and not self._frames.table.is_offered

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Enter rows of one input into the order of all inputs, and write the frames that are full."""
        source = self._inputs.input(stream, partition)
        source.is_ended = source.is_over = False
        self._inputs.ordering.enter_rows(source, rows_from(rows, source.ledger.start))
        self._inputs.ordering.push_ready_rows()
        yield from self._write_frames(force=False)

    def _write_frames(self, *, force: bool) -> Iterator[Action]:
        """Write frames while credits last: full ones, or if forced, all that waits for a frame."""
        frames = self._frames
        while self._has_credit() and frames.is_worth_a_frame():
            yield from self._write_frame(frames.cut_frame())
            self._pace.wait_anew()
        while force and self._has_credit() and (len(frames.queue) or frames.has_table_due):
            yield from self._write_frame(frames.cut_frame())
        while force and self._has_credit() and frames.has_answers_due():
            yield from self._write_frame(frames.cut_without_rows())
        if force and self._has_credit() and self._inputs.has_passable:
            yield from self._write_frame(frames.cut_without_rows())
        if force and not len(frames.queue):
            self._pace.wait_anew()

    def _write_frame(self, cut: Cut) -> Iterator[Action]:
        for action in self._frames.frame_and_letters(cut, self._log, self._request.grid):
            if isinstance(action, Emit) and isinstance(action.record, Frame):
                self._apply_frame(action.record)
                self._log.move_past(action.record)
            yield action
        if self._frames.table is not None:
            self._frames.table.begin_offered_version()

    def _has_credit(self) -> bool:
        return self._pace.has_credit(self._log.next_frame)

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table, once active (P17), unless the log already ends with this version."""
        assert self._frames.table is not None, "only a query with a table is given one"
        self._frames.table.offer_version(version, self.sources())
        yield from self._write_frames(force=False)

    # -- time, and the ends of inputs

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """Note that the input was read to its end; ended: False if more waits to be read, but isn't wanted."""
        source = self._inputs.input(stream, partition)
        source.is_ended = ended
        if ended and isinstance(self._inputs.ordering, EventTimeOrder):
            self._inputs.ordering.note_end(source)

    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the input would count as idle if it is still at its end."""
        ordering = self._inputs.ordering
        return isinstance(ordering, EventTimeOrder) and ordering.doubts_end(self._inputs.input(stream, partition))

    def holder(self) -> Holder | None:
        """The input that holds rows back: by its event time, or because it is a table without a version."""
        if not self.active:
            return None
        if self._awaits_table:
            return Holder(RIGHT, None, 0, None, 0)
        if not isinstance(self._inputs.ordering, EventTimeOrder):
            return None
        asking = self._frames.asking
        return self._inputs.ordering.holder(are_open=asking is not None and asking.wait_for_time)

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Write a frame that has lingered, and merge without idle inputs."""
        if not self.active:
            return
        self._inputs.ordering.push_ready_rows()
        has_lingered = self._pace.has_lingered(now_ms, self._log.next_frame, is_lingering=self.is_lingering)
        yield from self._write_frames(force=has_lingered)

    @property
    def is_lingering(self) -> bool:
        """Whether rows, the progress of inputs or due answers wait for a frame."""
        waits = len(self._frames.queue) > 0 or self._inputs.has_passable or self._frames.has_answers_due()
        return self.active and waits

    def flush(self) -> Iterator[Action]:
        """Write all remaining rows: the inputs have ended for good."""
        for source in self._inputs.opened:
            source.is_over = True
        self._inputs.ordering.push_ready_rows()
        yield from self._write_frames(force=True)

    def finish(self) -> Iterator[Action]:
        """Write all remaining rows and answer all open ones: the inputs have ended, so no partners come."""
        yield from self.flush()
        if self._frames.asking is not None:
            self._frames.asking.set_ended(ended=True)
            yield from self.flush()
            self._frames.asking.set_ended(ended=False)

    # -- progress

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Note how far results are out: this gives credits for more frames (back-pressure)."""
        self._pace.result_frame = max(self._pace.result_frame, result_position.frame_id)
        self._frames.spread.forget_unreached(self._pace.result_frame)
        return []

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        held = sum(source.held_rows() for source in self._inputs.opened)
        return len(self._frames.queue) + held + sum(book.state_tuples() for book in self._frames.books)


def rows_from(rows: Rows, start: tuple[int, int]) -> Rows:
    """Rows and dead letters from a place on: after a restart, the message at this place is read completely (P4)."""
    offset, row = start
    firsts = [letter.offset for letter in rows.dead[:1]] + [int(each) for each in rows.offsets[:1]]
    if row == 0 or not firsts or min(firsts) > offset:
        return rows
    return rows_behind(rows, start)


#: A frame that isn't full goes out at once if no other frame waits for its results, and after `linger_ms` if at most
#: this many do. Otherwise it lingers LINGER_STRETCH times as long, since a frame of any size costs every service most
#: of a millisecond.
FRAMES_UNDER_WAY_FEW = 4
LINGER_STRETCH = 10


class FramePace:
    """Credits for frames under way, and since when rows wait. result_frame: the frame up to which results are out."""

    def __init__(self, config: RouterConfig, result_frame: int) -> None:
        self.result_frame = result_frame
        self._config = config
        self._waiting_since_ms: int | None = None

    def has_credit(self, next_frame: int) -> bool:
        return next_frame - self.result_frame < self._config.credits_frames

    def has_lingered(self, now_ms: int, next_frame: int, *, is_lingering: bool) -> bool:
        """Whether lingering rows have waited long enough to go out in a frame that isn't full.

        As in Nagle's algorithm, frames are small while results keep up, and larger while others are under way.
        """
        if not is_lingering:
            self._waiting_since_ms = None
            return False
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        under_way = next_frame - self.result_frame
        stretch = 0 if under_way == 0 else 1 if under_way <= FRAMES_UNDER_WAY_FEW else LINGER_STRETCH
        return now_ms - self._waiting_since_ms >= self._config.linger_ms * stretch

    def wait_anew(self) -> None:
        """Restart the waiting time: the rows that are left came after the last frame."""
        self._waiting_since_ms = None


#: Takes a sentence about which request was refused, and why.
ReportRefusal = Callable[[str], None]


class WorkerRequest:
    """The newest worker count requested in the control topic; before the first request, the setting's."""

    def __init__(self, config: RouterConfig, report: ReportRefusal) -> None:
        self.workers = config.workers
        self._columns, self._by_key = config.columns, config.columns_by_key
        self._workers_max = config.workers_max
        self._version: int | None = None
        self._report = report

    @property
    def grid(self) -> GridOfFrame:
        """What the next frame says of the workers' grid."""
        return GridOfFrame(self.workers, self._columns, self._by_key)

    def accept_count(self, count: WorkerCount) -> None:  # P11.2
        """Take a record of the control topic: the largest version counts, and the first of equal versions."""
        if self._version is not None and count.version <= self._version:
            return
        self._version = count.version
        if count.workers <= self._workers_max:
            self.workers = count.workers
        else:
            self._report(
                f"request {count.version} for {count.workers} workers is refused, {self.workers} stay: workers_max is "
                f"{self._workers_max}; restart all services with a larger one, or request fewer workers"
            )
