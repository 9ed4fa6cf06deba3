"""What a process appends to the log: in transactions, with one writer for each role that uses them, or directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spojoin.ports.interfaces import Clock, Log, LogPartition, LogWriter
from spojoin.protocol.access import SHARING
from spojoin.protocol.machine import START, Emit, ResultPosition
from spojoin.protocol.topology import LETTER_SAYS, Edge, Topic
from spojoin.runtime.topics import Topics
from spojoin.telemetry.metrics import Metrics
from spojoin.wire.codec import encode
from spojoin.wire.records import DeadLetter, Frame, MessageHeaders, Record, Result
from spojoin.wire.result_writers import FramesWriter, ResultWriter
from spojoin.wire.results import (
    OutputMessage,
    ResultProgress,
    matches_of,
    progress,
)

#: emits are settled after this long at the latest, so that readers needn't wait for a busy writer
SETTLE_MS_MAX = 2.0
#: how much may wait behind a settlement: records, and bytes of result rows
BEHIND_MAX, BEHIND_BYTES_MAX = 512, 32 << 20
#: how often a thread that waits for a settlement polls it
POLL_S = 0.001
#: longer than the log needs to refuse an append
SETTLE_TIMEOUT_S = 60.0


class OutgoingMessage(NamedTuple):
    """A record ready to append."""

    target: LogPartition
    value: bytes
    headers: MessageHeaders = ()
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class WriteMode:
    """How a service writes.

    settles: whether emits must become readable: for a transaction's commit, or to move the result position
    is_transactional: whether emits are settled in transactions
    result_writer: writes results in their form
    result_key: the column whose value is the key of a message with a single row
    """

    settles: bool = False
    is_transactional: bool = False
    result_writer: ResultWriter = field(default_factory=FramesWriter)
    result_key: str | None = None


@dataclass(frozen=True, slots=True)
class OutputSoFar:
    """What the results topic held at the start.

    last: the furthest progress of this generation: JSON messages up to it are out
    matches: the number of matches in all results that are out
    """

    last: ResultProgress | None = None
    matches: int = 0


NO_PLACE = (-1, 0)


class Outbox:
    """Appends emits and settles them, which means that every reader can then read them.

    While some are being settled, others wait behind them, so that the machine can continue.
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
        self._place_out, self._out = NO_PLACE, START
        #: matches since the output began: in all readable results, and in all appended results
        self.matches_out = self._matches = 0
        self._unsettled_since_ms: float | None = None
        self._results: list[Result] = []
        self._settling: list[Result] | None = None
        self._behind: deque[Emit] = deque()
        self._behind_bytes = 0

    def go_on_after(self, before: OutputSoFar) -> None:
        """The results topic holds this already."""
        self._place_out = NO_PLACE if before.last is None else before.last.place
        self._out = START if before.last is None else ResultPosition(*before.last.following)
        self.matches_out = self._matches = before.matches

    def emit(self, action: Emit) -> None:
        """Append a record, or queue it behind those that are being settled; wait while a queue is full."""
        if self._settling is None:
            self._append(action)
            return
        self._behind.append(action)
        self._behind_bytes += action.record.rows.nbytes if isinstance(action.record, Result) else 0

    @property
    def is_full(self) -> bool:
        """Whether so many records wait to be appended that the machine should wait as well."""
        return len(self._behind) >= BEHIND_MAX or self._behind_bytes >= BEHIND_BYTES_MAX

    @property
    def is_settling(self) -> bool:
        """Whether a settlement is under way."""
        return self._settling is not None

    def _append(self, action: Emit) -> None:
        if self._was_out(action.record):
            return
        topic = action.topic.value
        if isinstance(action.record, Frame) and self._letters_unsettled and not self._mode.is_transactional:
            # A frame counts the dead letters before it: without a transaction, they must be in the log earlier.
            self._writer.flush(SETTLE_TIMEOUT_S)
        self._letters_unsettled = isinstance(action.record, DeadLetter)
        for message in self._messages(action):
            self._writer.append(message.target, message.value, message.headers, key=message.key)
            self._metrics.written.count(topic, len(message.value))
        self._count(action)
        if self._unsettled_since_ms is None:
            self._unsettled_since_ms = self._clock.monotonic_ms()

    def _was_out(self, record: Record) -> bool:  # P20.3
        """Whether its partition held a result at the start: of several, it may be ahead of the result position."""
        return isinstance(record, Result) and (record.frame_id, record.begin) < self._out

    def is_due(self, *, is_idle: bool) -> bool:
        """Whether to settle the waiting emits now: the loop is idle, or they have waited long enough."""
        if not self._mode.settles or self._unsettled_since_ms is None or self._settling is not None:
            return False
        return is_idle or self._clock.monotonic_ms() - self._unsettled_since_ms >= SETTLE_MS_MAX

    def serve(self) -> None:
        """Check for failed appends."""
        self._writer.serve()

    def begin_settling(self) -> None:
        """Begin to make the appended records readable; `settled` returns the outcome."""
        self._settling, self._results = self._results, []
        self._unsettled_since_ms = None
        self._writer.begin_flush(SETTLE_TIMEOUT_S)

    def settled(self) -> ResultPosition | None:
        """The result position, if the settled records are readable now and moved it."""
        if self._settling is None or not self._writer.is_flushed():
            return None
        readable, self._settling = self._settling, None
        waiting, self._behind, self._behind_bytes = self._behind, deque(), 0
        found = self._note(readable)
        for action in waiting:
            self._append(action)
        return found

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> ResultPosition | None:
        """Wait until all emits are readable; return the result position if they moved it."""
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
        return ResultPosition.behind(last.frame_id, last.end, is_last=last.is_last, step=last.step)

    def close(self) -> None:
        """Give up what is not settled."""
        self._writer.close()

    def _messages(self, action: Emit) -> Iterator[OutgoingMessage]:
        record = action.record
        if isinstance(record, DeadLetter):
            yield self._dead_letter(record)
        elif isinstance(record, Result):
            yield from self._result(record, action.partition)
        else:
            yield OutgoingMessage(LogPartition(self._topics.name(action.topic), action.partition), encode(record))

    def _dead_letter(self, letter: DeadLetter) -> OutgoingMessage:
        """The row as it came, with its message's headers; more headers hold the reason and the source as text."""
        place = self._topics.inputs[letter.stream], letter.partition, letter.offset, letter.row
        said = zip(LETTER_SAYS, (letter.reason, letter.detail, *place, letter.timestamp_ms), strict=True)
        ours = {name: str(value).encode() for name, value in said if value is not None}
        headers = (*(each for each in letter.headers if each[0] not in ours), *ours.items())
        return OutgoingMessage(self._topics.dead_letters(letter.stream), letter.value, headers, letter.key)

    def _result(self, result: Result, partition: int) -> Iterator[OutgoingMessage]:
        target = LogPartition(self._topics.name(Topic.RESULTS), partition)
        for message in self._mode.result_writer.messages(result, self._matches, self._mode.result_key):
            if not self._is_out(message):
                yield OutgoingMessage(target, message.value, tuple(message.headers.items()), message.key)

    def _is_out(self, message: OutputMessage) -> bool:
        """Whether a message is in the topic since before a crash, which happens without transactions."""
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
            if action.partition == record.frame_id % record.sinks:  # a frame with rows in every partition counts once
                self._metrics.answered_tuples.inc(record.end - record.begin)
            matches = matches_of(record)
            self._matches += matches
            self._metrics.matches.inc(matches)


class Outboxes:
    """Gives each emit to the outbox of its topic. Each outbox has its own writer.

    ids: transactional ids by topic, for topics that are written in transactions
    mode: how results are written
    """

    def __init__(
        self,
        log: Log[bytes],
        edge: Edge,
        ids: Mapping[Topic, str],
        place: tuple[Topics, Metrics, Clock],
        mode: WriteMode,
    ) -> None:
        self._log = log
        self._place = place
        self._mode = mode
        self._ids = ids
        self._sharing = _sharing(edge.writes, ids)
        self._by_topic: dict[Topic, Outbox] = {}
        self._outboxes: list[Outbox] = []
        for sharing in self._sharing:
            if not self._is_exclusive(sharing):
                self._open(sharing)

    def _is_exclusive(self, sharing: Sequence[Topic]) -> bool:
        """Whether only the speaker may have a writer of these topics, which fences other writers."""
        return Topic.RESULTS in sharing or any(topic in self._ids for topic in sharing)

    def open(self) -> None:
        """Open the writers that only one instance may have; the previous instance's writers are fenced.

        An instance that lost its seat and took it again continues after everything it has written, since its machine
        won't emit that again. Raises Fenced if another instance had the writers meanwhile.
        """
        for sharing in self._sharing:
            if self._is_exclusive(sharing):
                self._open(sharing)

    def _open(self, sharing: Sequence[Topic]) -> None:
        if (before := self._by_topic.get(sharing[0])) is not None:
            before.settle()
            before.close()
        transactional_id = next((self._ids[topic] for topic in sharing if topic in self._ids), None)
        settles = transactional_id is not None or Topic.RESULTS in sharing
        mode = replace(self._mode, settles=settles, is_transactional=transactional_id is not None)
        self._by_topic |= dict.fromkeys(sharing, Outbox(self._log.writer(transactional_id), *self._place, mode))
        self._outboxes = list(dict.fromkeys(self._by_topic.values()))

    def go_on_after(self, before: OutputSoFar) -> None:
        """The results topic holds this already."""
        if (results := self._by_topic.get(Topic.RESULTS)) is not None:
            results.go_on_after(before)

    def emit(self, action: Emit) -> None:
        """Append a record, or queue it behind a settlement."""
        self._by_topic[action.topic].emit(action)

    def is_full(self) -> bool:
        """Whether the machine should wait before it emits more."""
        return any(outbox.is_full for outbox in self._outboxes)

    def is_settling(self) -> bool:
        """Whether a settlement is under way."""
        return any(outbox.is_settling for outbox in self._outboxes)

    def serve(self, *, is_idle: bool) -> ResultPosition | None:
        """Check for failed appends and continue settlements; return the result position if one moved it."""
        moved = None
        for outbox in self._outboxes:
            moved = outbox.settled() or moved
            if outbox.is_due(is_idle=is_idle):
                outbox.begin_settling()
                moved = outbox.settled() or moved
            outbox.serve()
        return moved

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> ResultPosition | None:
        """Wait until all emits are readable; return the result position if they moved it."""
        return max((found for outbox in self._outboxes if (found := outbox.settle(timeout_s))), default=None)

    @property
    def matches_out(self) -> int:
        """The number of matches in all readable results."""
        results = self._by_topic.get(Topic.RESULTS)
        return 0 if results is None else results.matches_out

    def close(self) -> None:
        """Give up what is not settled."""
        for outbox in self._outboxes:
            outbox.close()


def _sharing(writes: Sequence[Topic], ids: Mapping[Topic, str]) -> list[list[Topic]]:
    """The written topics, grouped by writer; topics without transactions, except the results, share one."""
    own = [group for group in SHARING.values() if Topic.RESULTS in group or any(topic in ids for topic in group)]
    rest = [topic for topic in writes if not any(topic in group for group in own)]
    found = [[topic for topic in group if topic in writes] for group in own]
    return [group for group in (*found, rest) if group]
