"""What a machine emits, on its way into the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from spojoin.ports.interfaces import Clock, LogPartition, LogWriter
from spojoin.protocol.machine import Emit, ResultPosition
from spojoin.protocol.topology import LETTER_SAYS, Topic
from spojoin.runtime.plain_rows import PLAIN_JSON
from spojoin.runtime.topics import Topics
from spojoin.telemetry.metrics import Metrics
from spojoin.wire.codec import encode
from spojoin.wire.records import DeadLetter, Frame, MessageHeaders, Result
from spojoin.wire.results import (
    OutputMessage,
    ResultProgress,
    matches_of,
    progress,
    result_messages_json,
    result_messages_rows,
    result_to_message,
)
from spojoin.wire.row_values import message_keys

#: a batch of emits is settled after this long at the latest, so that readers need not wait for a busy writer
SETTLE_MS_MAX = 2.0
#: what may wait behind a settlement: records, and bytes of result rows
BEHIND_MAX, BEHIND_BYTES_MAX = 512, 32 << 20
#: how often somebody who waits for a settlement asks for it
POLL_S = 0.001
#: longer than the log takes to refuse an append
SETTLE_TIMEOUT_S = 60.0


class OutgoingMessage(NamedTuple):
    """A record ready to append."""

    target: LogPartition
    value: bytes
    headers: MessageHeaders = ()
    key: bytes | None = None


class RowForm(Protocol):
    """A form of results with a message for each row."""

    @property
    def content_type(self) -> bytes:
        """What its messages' header says."""
        ...

    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """The messages' values. Raises Retryable, and ConfigurationError where the rows can't have this form."""
        ...


@dataclass(frozen=True, slots=True)
class WriteMode:
    """How a service writes.

    settles: whether somebody waits for emits to be readable: a transaction's commit, or the result position's move
    is_transactional: whether emits are settled in transactions
    is_json: the form of results; row_form: one of a message a row, in place of the others
    result_key: the column that gives messages of single rows their key
    """

    settles: bool = False
    is_transactional: bool = False
    is_json: bool = False
    row_form: RowForm | None = None
    result_key: str | None = None


@dataclass(frozen=True, slots=True)
class OutputSoFar:
    """What the results topic held at the start.

    last: the furthest progress of this generation: JSON messages up to it are out already
    matches: of all results that are out
    """

    last: ResultProgress | None = None
    matches: int = 0


NO_PLACE = (-1, 0)


class Outbox:
    """Appends emits and settles them: makes sure that every reader can read them.

    While some are being settled, others wait behind them, so that the machine goes on.
    """

    def __init__(
        self,
        writer: LogWriter[bytes],
        topics: Topics,
        metrics: Metrics,
        clock: Clock,
        mode: WriteMode,
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._metrics = metrics
        self._clock = clock
        self._mode = mode
        self._letters_unsettled = False
        self._place_out = NO_PLACE
        #: matches since the output began: in all results that are readable, and in all that were appended
        self.matches_out = self._matches = 0
        self._unsettled_since_ms: float | None = None
        self._results: list[Result] = []
        self._settling: list[Result] | None = None
        self._behind: deque[Emit] = deque()
        self._behind_bytes = 0

    def go_on_after(self, before: OutputSoFar) -> None:
        """The results topic holds this already."""
        self._place_out = NO_PLACE if before.last is None else before.last.place
        self.matches_out = self._matches = before.matches

    def emit(self, action: Emit) -> None:
        """Append a record, or queue it behind those that are being settled; waits while a queue is full."""
        if self._settling is None:
            self._append(action)
            return
        self._behind.append(action)
        self._behind_bytes += action.record.rows.nbytes if isinstance(action.record, Result) else 0

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be appended that the machine should wait as well."""
        return len(self._behind) >= BEHIND_MAX or self._behind_bytes >= BEHIND_BYTES_MAX

    @property
    def is_settling(self) -> bool:
        """Whether a settlement is under way."""
        return self._settling is not None

    def _append(self, action: Emit) -> None:
        topic = action.topic.value
        if isinstance(action.record, Frame) and self._letters_unsettled and not self._mode.is_transactional:
            # A frame counts the dead letters before it: without a transaction they must be in the log before it is.
            self._writer.flush(SETTLE_TIMEOUT_S)
        self._letters_unsettled = isinstance(action.record, DeadLetter)
        for message in self._messages(action):
            self._writer.append(message.target, message.value, message.headers, key=message.key)
            self._metrics.written.count(topic, len(message.value))
        self._count(action)
        if self._unsettled_since_ms is None:
            self._unsettled_since_ms = self._clock.monotonic_ms()

    def is_due(self, *, is_idle: bool) -> bool:
        """Whether emits wait to be settled and the time for it has come: nothing else to do, or long enough."""
        if not self._mode.settles or self._unsettled_since_ms is None or self._settling is not None:
            return False
        return is_idle or self._clock.monotonic_ms() - self._unsettled_since_ms >= SETTLE_MS_MAX

    def serve(self) -> None:
        """Learn of failed appends."""
        self._writer.serve()

    def begin_settling(self) -> None:
        """Begin to make what was appended readable; `settled` has the news."""
        self._settling, self._results = self._results, []
        self._unsettled_since_ms = None
        self._writer.begin_flush(SETTLE_TIMEOUT_S)

    def settled(self) -> ResultPosition | None:
        """The result position, if what was being settled is readable now and has moved it."""
        if self._settling is None or not self._writer.is_flushed():
            return None
        readable, self._settling = self._settling, None
        waiting, self._behind, self._behind_bytes = self._behind, deque(), 0
        found = self._note(readable)
        for action in waiting:
            self._append(action)
        return found

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> ResultPosition | None:
        """Wait until all emits are readable; the result position that they moved to, if any."""
        found = None
        while self._settling is not None:
            found = self.settled() or found
            if self._settling is not None:
                self._clock.sleep(POLL_S)
        self._writer.flush(timeout_s)
        self._unsettled_since_ms = None
        settled, self._results = self._results, []
        return self._note(settled) or found

    def _note(self, readable: list[Result]) -> ResultPosition | None:
        if not readable:
            return None
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        for result in readable:
            self.matches_out += matches_of(result)
            self._metrics.latency.observe(wall_ms - result.produced_ms, result.produced_runs, now_ms)
        last = readable[-1]
        return ResultPosition.behind(last.frame_id, last.end, is_last=last.is_last)

    def close(self) -> None:
        """Give up what is not settled."""
        self._writer.close()

    def _messages(self, action: Emit) -> Iterator[OutgoingMessage]:
        record = action.record
        if isinstance(record, DeadLetter):
            yield self._dead_letter(record)
        elif isinstance(record, Result):
            yield from self._result(record)
        else:
            yield OutgoingMessage(LogPartition(self._topics.name(action.topic), action.partition), encode(record))

    def _dead_letter(self, letter: DeadLetter) -> OutgoingMessage:
        """The row as it came, with its message's headers; the reason and the source are in further ones, as text."""
        place = self._topics.inputs[letter.stream], letter.partition, letter.offset, letter.row
        said = zip(LETTER_SAYS, (letter.reason, letter.detail, *place, letter.timestamp_ms), strict=True)
        ours = {name: str(value).encode() for name, value in said if value is not None}
        headers = (*(each for each in letter.headers if each[0] not in ours), *ours.items())
        return OutgoingMessage(self._topics.dead_letters(letter.stream), letter.value, headers, letter.key)

    def _result(self, result: Result) -> Iterator[OutgoingMessage]:
        target = LogPartition(self._topics.name(Topic.RESULTS), 0)
        before = self._matches
        for message in self._in_form(result, before):
            if not self._is_out(message):
                yield OutgoingMessage(target, message.value, tuple(message.headers.items()), message.key)

    def _in_form(self, result: Result, before: int) -> list[OutputMessage]:
        form = self._row_form(result)
        if form is None:
            return result_messages_json(result, before) if self._mode.is_json else [result_to_message(result, before)]
        rows, key = result.rows, self._mode.result_key
        values = form.values(rows) if rows.num_rows else ()
        keys = None if key is None else message_keys(rows.schema.field(key), rows.column(key))
        return result_messages_rows(result, values, form.content_type, before, keys)

    def _row_form(self, result: Result) -> RowForm | None:
        return PLAIN_JSON if self._mode.is_json and result.probes is not None else self._mode.row_form

    def _is_out(self, message: OutputMessage) -> bool:
        """Without transactions, some of a result's messages may be in the topic from before a crash."""
        if self._place_out == NO_PLACE:
            return False
        at = progress(message.headers)
        return at.seq is not None and at.place <= self._place_out

    def _count(self, action: Emit) -> None:
        record = action.record
        if isinstance(record, DeadLetter):
            self._metrics.dead_letters.labels(record.reason).inc()
        elif isinstance(record, Frame):
            self._metrics.tuples.inc(record.count)
            self._metrics.head_frame.set(record.frame_id + 1)
        elif isinstance(record, Result):
            self._results.append(record)
            self._metrics.answered_tuples.inc(record.end - record.begin)
            matches = matches_of(record)
            self._matches += matches
            self._metrics.matches.inc(matches)
