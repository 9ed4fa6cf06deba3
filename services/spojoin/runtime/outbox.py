"""What a machine emits, on its way into the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spojoin.ports.interfaces import Clock, Headers, LogPartition, LogWriter
from spojoin.protocol.machine import Emit, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.runtime.result_position import position_of_results
from spojoin.runtime.topics import Topics
from spojoin.telemetry.metrics import Metrics
from spojoin.wire.codec import encode
from spojoin.wire.records import DeadLetter, Frame, Result
from spojoin.wire.results import (
    OutputMessage,
    ResultProgress,
    matches_of,
    progress,
    result_messages_json,
    result_to_message,
)

#: a batch of emits is settled after this long at the latest, so that readers need not wait for a busy writer
SETTLE_MS_MAX = 20.0
#: longer than the log takes to refuse an append
SETTLE_TIMEOUT_S = 60.0


class OutgoingMessage(NamedTuple):
    """A record ready to append."""

    target: LogPartition
    value: bytes
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class WriteMode:
    """How a service writes.

    settles: whether somebody waits for emits to be readable: a transaction's commit, or the result position's move
    is_transactional: whether emits are settled in transactions; is_json: the form of results
    """

    settles: bool
    is_transactional: bool
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class OutputSoFar:
    """What the results topic held at the start.

    last: the furthest progress of this generation: JSON messages up to it are out already
    matches: of all results that are out
    """

    last: ResultProgress | None = None
    matches: int = 0


NO_OUTPUT = OutputSoFar()


class Outbox:
    """Appends emits and settles them: makes sure that every reader can read them."""

    def __init__(
        self,
        writer: LogWriter[bytes],
        topics: Topics,
        metrics: Metrics,
        clock: Clock,
        mode: WriteMode,
        before: OutputSoFar = NO_OUTPUT,
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._metrics = metrics
        self._clock = clock
        self._mode = mode
        self._letters_unsettled = False
        self._seq_out = -1 if before.last is None or before.last.seq is None else before.last.seq
        #: matches since the output began: in all results that are readable, and in all that were appended
        self.matches_out = self._matches = before.matches
        self._unsettled_since_ms: float | None = None
        self._results: list[Result] = []

    def emit(self, action: Emit) -> None:
        """Append a record; waits while the log's queue is full."""
        topic = action.topic.value
        if isinstance(action.record, Frame) and self._letters_unsettled and not self._mode.is_transactional:
            # A frame counts the dead letters before it: without a transaction they must be in the log before it is.
            self._writer.flush(SETTLE_TIMEOUT_S)
        self._letters_unsettled = isinstance(action.record, DeadLetter)
        for message in self._messages(action):
            self._writer.append(message.target, message.value, message.headers)
            self._metrics.written.count(topic, len(message.value))
        self._count(action)
        if self._unsettled_since_ms is None:
            self._unsettled_since_ms = self._clock.monotonic_ms()

    def is_due(self, *, is_idle: bool) -> bool:
        """Whether emits wait to be settled and the time for it has come: nothing else to do, or long enough."""
        if not self._mode.settles or self._unsettled_since_ms is None:
            return False
        return is_idle or self._clock.monotonic_ms() - self._unsettled_since_ms >= SETTLE_MS_MAX

    def serve(self) -> None:
        """Learn of failed appends."""
        self._writer.serve()

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> ResultPosition | None:
        """Wait until all emits are readable; the result position that they moved to, if any."""
        self._writer.flush(timeout_s)
        self._unsettled_since_ms = None
        settled, self._results = self._results, []
        if not settled:
            return None
        self.matches_out = self._matches
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        for result in settled:
            self._metrics.latency.observe(wall_ms - result.produced_ms, result.produced_runs, now_ms)
        last = settled[-1]
        return position_of_results(ResultProgress(last.frame_id, last.end, last.is_last, None))

    def _messages(self, action: Emit) -> Iterator[OutgoingMessage]:
        record = action.record
        if isinstance(record, DeadLetter):
            yield self._dead_letter(record)
        elif isinstance(record, Result):
            yield from self._result(record)
        else:
            yield OutgoingMessage(LogPartition(self._topics.name(action.topic), action.partition), encode(record))

    def _dead_letter(self, letter: DeadLetter) -> OutgoingMessage:
        """The message as it came; the reason and the source are in its headers, numbers as decimal text."""
        headers = {
            "reason": letter.reason,
            "detail": letter.detail,
            "source-topic": self._topics.inputs[letter.stream],
            "source-partition": letter.partition,
            "source-offset": letter.offset,
            "source-row": letter.row,
        }
        encoded = tuple((f"spojoin-{name}", str(value).encode()) for name, value in headers.items())
        return OutgoingMessage(self._topics.dead_letters(letter.stream), letter.value, encoded)

    def _result(self, result: Result) -> Iterator[OutgoingMessage]:
        target = LogPartition(self._topics.name(Topic.RESULTS), 0)
        before = self._matches
        messages = result_messages_json(result, before) if self._mode.is_json else [result_to_message(result, before)]
        for message in messages:
            if not self._is_out(message):
                yield OutgoingMessage(target, message.value, tuple(message.headers.items()))

    def _is_out(self, message: OutputMessage) -> bool:
        """Without transactions, some of a result's messages may be in the topic from before a crash."""
        if self._seq_out < 0:
            return False
        seq = progress(message.headers).seq
        return seq is not None and seq <= self._seq_out

    def _count(self, action: Emit) -> None:
        record = action.record
        if isinstance(record, DeadLetter):
            self._metrics.dead_letters.labels(record.reason).inc()
        elif isinstance(record, Frame):
            self._metrics.tuples.inc(record.count)
            self._metrics.head_frame.set(record.frame_id + 1)
        elif isinstance(record, Result):
            self._results.append(record)
            self._metrics.tuples.inc(record.end - record.begin)
            matches = matches_of(record)
            self._matches += matches
            self._metrics.matches.inc(matches)
