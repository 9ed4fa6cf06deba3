"""The records that travel between services: plain data over NumPy and Arrow arrays.

The arrays of a received record are views of the message: never write to them. An index counts the tuples of one stream
from 0; a seq counts the tuples of all streams from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64, U8, U16, U32
from spojoin.wire.fields import (
    SUMS,
    TRACES,
    AnyLength,
    Codes,
    Local,
    OneOrEach,
    Rising,
    Seldom,
    Wire,
    any_length,
    guidance,
)
from spojoin.wire.sums import Sums

#: A place in an input partition: the offset of a message, and a row within it.
Place = tuple[int, int]
#: Stands for a time where there is none: an event time earlier than any other.
NEVER = -(2**63)


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The next row to read from an input partition, and its largest event time before that row, or NEVER."""

    offset: int
    row: int
    high_time_us: int

    @property
    def place(self) -> Place:
        """The place of that row."""
        return self.offset, self.row


#: (stream, partition) -> where reading resumes
SourceState = dict[tuple[int, int], SourcePosition]


def resume_position(sources: SourceState, source: tuple[int, int]) -> SourcePosition:
    """Where reading of an input resumes; its beginning if no frame contains rows of it."""
    return sources.get(source, SourcePosition(0, 0, NEVER))


#: The group of a batch if the window moves within a batch.
NO_GROUP = -1


@dataclass(slots=True)
class StreamSlice:
    """The n tuples of one stream in one frame, and the stream's bounds, which are constant over the frame.

    first_index: how many tuples of the stream came before this frame
    positions: uint16 (n,), position of each tuple in the frame, ascending
    codes: one int64 (n,) per key column of the stream
    lower: int64 (1,) or (n,), first index of the *opposite* stream (self join: the same) in each probe's window
    times_us: int64 (n,); None if the query needs no time
    keys: Arrow int64 or string array (n,), the users' keys
    batch_id, batch_first: the batch that this frame's tuples belong to, and its first index
    seals: whether that batch ends with this frame
    group: batches of one group leave every window together; NO_GROUP if the window moves within a batch
    handover_batch, handover_index: for this frame's probes, batches and tuples below these are immutable
    live_batch: the oldest batch that a window of this frame can reach
    payload: the columns that travel with the tuples, n rows; None if the query needs none
    passed, void: how many void rows of the stream came before this frame, and are in it; they have no index and join
        nothing, but take a place in windows by count
    places: int64 (n,), place of each tuple among all rows of the stream; None if it is index + passed
    own: int64 (n,), for rows that ask: the index of the right tuple that is the same row, if the two match; otherwise
        NO_OWN, or OWN_VOID for a void row; None if all are NO_OWN
    """

    first_index: int
    positions: Rising[U16]
    codes: Codes
    lower: OneOrEach[I64]
    times_us: I64 | None
    keys: pa.Array
    batch_id: int
    batch_first: int
    seals: bool
    group: int
    handover_batch: int
    handover_index: int
    live_batch: int
    payload: Seldom[pa.RecordBatch] = None
    passed: int = 0
    void: int = 0
    places: Seldom[I64] = None
    own: Seldom[I64] = None
    #: Not of the record: columns that a process has sorted, by slot (see `protocol.frame_evaluation`).
    sorted_columns: Local[dict[int, tuple[I64, U16]]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def all_places(self) -> I64:
        """The place of each tuple, int64 (n,)."""
        if self.places is not None:
            return self.places
        first = self.first_index + self.passed
        return np.arange(first, first + len(self), dtype=np.int64)


#: Values of `own`: no tuple that the row could find is the row itself; the row can find no tuple at all.
NO_OWN, OWN_VOID = -1, -2


@dataclass(slots=True)
class Closing:
    """The n rows of a stream that close with a frame and are answered; m of them search (rule P16).

    first: the index of the first of these rows; if there are none, of the first row that is still open
    seqs: int64 (n,), ascending
    positions: uint16 (m,), positions of the searching rows among the frame's answers, ascending; other rows are void
    after: uint32 (m,), how many of the frame's rows come before each row closes: it finds those and earlier rows
    codes: one int64 (m,) per key column of the stream
    lower: int64 (1,) or (m,), first index of the other stream that each row may find
    own: int64 (m,), as in `StreamSlice`; None if all are NO_OWN
    reached: the first index of the other stream that a row may find that closes here or stays open
    places: uint16 (n,), positions of all n rows among the frame's answers, ascending; None if there are no others
    """

    first: int
    seqs: Annotated[I64, Wire(lengths=any_length, rises=True)]
    positions: Rising[U16]
    after: Annotated[U32, Wire(ascends=True)]
    codes: Codes
    lower: OneOrEach[I64]
    own: I64 | None
    reached: int
    places: Annotated[
        U16 | None, Wire(flag="has_places", rises=True, lengths=lambda closing, _: (len(closing.seqs),))
    ] = None
    #: Not of the record: columns that a process has sorted, by slot (see `protocol.frame_evaluation`).
    sorted_columns: Local[dict[int, tuple[I64, U16]]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def end(self) -> int:
        """The index of the first row of the stream that stays open."""
        return self.first + len(self.seqs)

    @property
    def all_places(self) -> U16:
        """The position of each row among the frame's answers, uint16 (n,)."""
        return np.arange(len(self.seqs)).astype(np.uint16) if self.places is None else self.places

    @property
    def searching(self) -> I64:
        """Which of the rows search, int64 (m,)."""
        if self.places is None:
            return self.positions.astype(np.int64)
        return np.searchsorted(self.places, self.positions).astype(np.int64)

    def rows_at(self, begin: int, end: int) -> slice:
        """Which of the rows have positions [begin, end) among the frame's answers."""
        if self.places is None:
            return slice(begin, end)
        first, last = np.searchsorted(self.places, (begin, end)).tolist()
        return slice(first, last)


#: What searches in one direction: the tuples of a frame, or the rows that close with it.
Probes = StreamSlice | Closing


@dataclass(frozen=True, slots=True, eq=False)
class Unjoined:
    """The n rows of one input that have a number but join nothing.

    input: its number in the query; positions: uint16 (n,), positions in the frame, ascending; keys: as in a slice
    """

    input: int
    positions: Rising[U16]
    keys: pa.Array

    def __len__(self) -> int:
        return len(self.positions)


#: The `end` of a spread key that is still hot.
STILL_HOT = 2**62


@dataclass(frozen=True, slots=True)
class SpreadKey:
    """A key whose tuples with indexes [first, end) of a stream the columns hold in turn (rule P21).

    code: of the key, in the slot by which columns hold the stream's tuples
    end: STILL_HOT while further tuples follow
    """

    stream: int
    code: int
    first: int
    end: int


#: When inputs were produced: times, and how many rows each holds for.
ProducedMs = AnyLength[I64]
ProducedRuns = Annotated[U32, Wire(lengths=lambda record, _: (len(record.produced_ms),))]

NO_GUIDANCE: U8 = np.empty(0, np.uint8)
NONE_SILENT: U8 = np.empty(0, np.uint8)


@dataclass(slots=True)
class Frame:
    """A run of consecutive tuples with everything that a reader needs to evaluate it: the log's main record.

    previous_link and link chain the source offsets: a reader accepts only the frame that follows its link (rule P3).
    produced_ms, produced_runs: run-length coded times at which the inputs were produced, in frame order
    rejected: cumulative count of refused rows, by reason
    checkpoint: what a router needs to resume here (event-time merge); opaque to other services
    guidance: uint8, what the workers of another evaluation need besides the tuples, opaque to others; usually empty
    fingerprint: of the query's meaning; 0 in logs older than this field
    silent: uint8 (answers,), 1 for an answer that an earlier generation has given; empty if there is none (rule P12)
    unjoined: rows in no slice
    is_shared: whether one input feeds both slices, so a row may be in both
    closings: if left rows ask, the left rows that are answered here, and if both sides ask, the right rows as well;
        empty if each tuple answers
    columns: of the workers' grid (rule P19); 0 if all workers are one row, as in logs older than this field
    columns_by_key: whether columns share the tuples by their keys, rather than the batches (rule P21)
    spread: the keys whose tuples in a window are, or will be, held in turn (rule P21)
    """

    epoch: int
    frame_id: int
    first_seq: int
    count: int
    slices: Annotated[tuple[StreamSlice, ...], Wire(lengths=lambda *_: (1, 2))]
    workers: int
    previous_link: int
    link: int
    source: SourceState
    checkpoint: bytes
    rejected: dict[str, int]
    produced_ms: ProducedMs
    produced_runs: ProducedRuns
    guidance: Annotated[U8, Wire(coding=guidance(NO_GUIDANCE), lengths=any_length)] = field(
        default_factory=lambda: NO_GUIDANCE
    )
    fingerprint: int = 0
    silent: Annotated[U8, Wire(flag="has_silent", absent=NONE_SILENT, lengths=lambda frame, _: (0, frame.answers))] = (
        field(default_factory=lambda: NONE_SILENT)
    )
    unjoined: Annotated[tuple[Unjoined, ...], Wire(columns="unjoined_columns")] = ()
    is_shared: bool = False
    closings: Annotated[tuple[Closing, ...], Wire(names=("closing", "right_closing"), columns="closing_columns")] = ()
    columns: int = 0
    columns_by_key: bool = False
    spread: tuple[SpreadKey, ...] = ()

    @property
    def answers(self) -> int:
        """How many answers the frame needs: one for each tuple, or one for each row that closes with it."""
        return sum(len(each.seqs) for each in self.closings) if self.closings else self.count

    @property
    def is_silent(self) -> bool:
        """Whether no answer is needed: all rows only fill windows."""
        return len(self.silent) > 0 and bool(self.silent.all())

    @property
    def is_answered(self) -> bool:
        """Whether parts answer for the frame: it needs answers, and not all of them were given before."""
        return self.answers > 0 and not self.is_silent

    def probes(self, stream: int) -> Probes:
        """The probes of a stream."""
        return self.closings[stream] if self.closings else self.slices[stream]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A router's claim to the log: frames of older epochs that follow it are void.

    fingerprint: of the query's meaning; 0 in logs older than this field
    closes: whether to ignore all that follows, because another generation of the query continues (rule P12)
    checkpoint: if it closes and rows are in event-time order, the router's last checkpoint with the rows refused so far
    first_indexes: the index of each stream's first row in this log; empty if all are 0
    first_seq: the seq of the log's first row; 0 if that is the sum of `first_indexes`, as when no row is in two streams
    """

    epoch: int
    router_id: str
    fingerprint: int = 0
    closes: bool = False
    first_indexes: tuple[int, ...] = ()
    first_seq: int = 0
    checkpoint: bytes = b""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A request for a generation of a query: the first, or one that replaces its predecessor (rule P12).

    text: the query file; backfill: a `Backfill`, how far back to fill its windows
    inputs: the topics of its inputs, in order; empty in announcements older than this field
    owner: the owner of the query and its name; empty in announcements older than this field
    adopts: the previous owner, from whom the name is taken over; empty if the name is free, or already the owner's
    sinks: how many partitions its results have (rule P20.1)
    """

    generation: int
    fingerprint: int
    text: str
    backfill: str
    inputs: tuple[str, ...] = ()
    owner: str = ""
    adopts: str = ""
    sinks: Annotated[int, Wire(absent=1)] = 1


@dataclass(frozen=True, slots=True)
class Takeover:
    """A generation begins where `from_generation` stopped: all rows before `source` have been answered or refused.

    The streams and inputs are those of `from_generation`.
    counts: its rows by stream; numbered: its rows with a number; rejected: its refused rows by reason
    checkpoint: its router's last checkpoint, if rows behind `source` were answered in event-time order; otherwise empty
    lateness_us: the largest lateness of it and all generations before it
    """

    generation: int
    from_generation: int
    source: SourceState
    counts: tuple[int, ...]
    rejected: dict[str, int]
    checkpoint: bytes = b""
    lateness_us: int = 0
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class Presence:
    """A beat: an instance of a service is alive (rule P15).

    instance: which instance of the service; life: distinguishes the instance's restarts
    term: the term of the instance's seat if it `speaks`; otherwise the latest term that it knows
    """

    service: str
    instance: str
    life: str
    term: int
    speaks: bool


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """A request: PO-Join workers 0..workers-1 share the batches from a later frame on. The largest version counts."""

    version: int
    workers: int


@dataclass(slots=True)
class DirectionRanks:
    """Rank intervals of a frame's m probes of one direction among the target's n mutable tuples, for one predicate.

    positions: uint16 (n,), rank of each stored tuple in sort order, listed by arrival from the handover index on
    start, length: uint16 (m,); the predicate holds iff (position - start) mod 2**16 < length
    """

    positions: AnyLength[U16]
    start: U16
    length: U16


@dataclass(slots=True)
class Partial:
    """One mutable joiner's evaluation of one frame by its predicate, per direction."""

    epoch: int
    frame_id: int
    predicate: int
    directions: tuple[DirectionRanks, ...]


@dataclass(slots=True)
class SortedColumn:
    """A batch's codes of one key column, int64 (n,) ascending; order: uint16 (n,), their arrival offsets."""

    slot: int
    codes: Annotated[I64, Wire(ascends=True)]
    order: Annotated[U16, Wire(is_rank=True)]


@dataclass(slots=True)
class Run:
    """One mutable joiner's sorted columns of a sealed batch.

    The joiner of predicate 0 is the carrier: it adds seqs int64 (n,), times_us, keys, payload and places, which are
    None in other joiners' runs.
    places: int64 (n,), as in `StreamSlice`; None if all equal the tuples' indexes
    lower, own: int64 (n,), as in `StreamSlice`, for rows that ask; None for others
    An empty run means that the log no longer holds this batch or older ones: they were made, or have expired.
    frame_id, live_batches: once results are out for this frame, no window reaches an older batch of each stream than
        these
    """

    stream: int
    batch_id: int
    first: int
    end: int
    group: int
    predicate: int
    columns: Annotated[tuple[SortedColumn, ...], Wire(names=("slots",))]
    seqs: I64 | None
    times_us: I64 | None
    keys: pa.Array | None
    payload: Seldom[pa.RecordBatch] = None
    places: Seldom[I64] = None
    own: Seldom[I64] = None
    lower: Seldom[I64] = None
    frame_id: int = 0
    live_batches: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the run holds no tuples."""
        return self.first == self.end


@dataclass(slots=True)
class Batch:
    """An immutable batch of one stream: tuples first..end-1, with all key columns sorted, and permutations.

    columns: each slot once
    permutations: per (slot_a, slot_b), uint16 (n,): rank in slot_b of the tuple with rank i in slot_a
    payload, places, lower, own: as in `Run`
    """

    stream: int
    batch_id: int
    first: int
    end: int
    group: int
    columns: Annotated[tuple[SortedColumn, ...], Wire(names=("slots",))]
    permutations: dict[tuple[int, int], U16]
    seqs: I64
    times_us: I64 | None
    keys: pa.Array | None
    payload: Seldom[pa.RecordBatch] = None
    places: Seldom[I64] = None
    own: Seldom[I64] = None
    lower: Seldom[I64] = None


@dataclass(slots=True)
class Matches:
    """One direction's matches of the m probes in a part: counts int64 (m,) and, except for count output, the partners.

    offsets: int64 (m + 1,); None for count output
    partners: int64 seqs, ascending within a probe, possibly cut at the query's limit, or only the partners that its
        choices need (counts are complete nevertheless); None for count output
    sums: what partners add to aggregates, if parts sum it; None if they don't, or if all sums are 0
    """

    counts: I64
    offsets: Annotated[I64 | None, Wire(lengths=lambda _, size: (size + 1,))] = None
    partners: AnyLength[I64 | None] = None
    sums: Annotated[Sums | None, Wire(coding=SUMS)] = None


@dataclass(slots=True)
class Part:
    """What one part (0: mutable, 1 + w: PO-Join worker w) found for positions [begin, end) of a frame.

    directions: in query direction order; each holds that direction's probes among these positions, in frame order
    """

    epoch: int
    frame_id: int
    part: int
    begin: int
    end: int
    directions: tuple[Matches, ...]


@dataclass(slots=True)
class Result:
    """Final rows for positions [begin, end) of a frame, in output order, as an Arrow record batch.

    is_last: whether `end` is the frame's count
    produced_ms, produced_runs: as in the frame, for latency
    generation: the query's generation that answered
    matches: the number of matches if `rows` must be unpacked to count them, as with bitmaps; otherwise 0
    probes: int64 (n,), ascending; with a select list, the seq of the row that answered for each of n rows; if rows of
        both sides ask, the number of the answer; None for other outputs
    traces: the `traceparent` of each row that answered, an Arrow string array (n,) with nulls; None if not needed
    behind: where the next generation would begin if this one ended after this result; None if not needed
    sinks: how many partitions the generation's results have; frame f is in partition f modulo `sinks` (rule P20)
    numbers: int64 (n,), the number of each row within its answer, if each partition has its keys' rows of every frame
        instead (P20.7); otherwise None
    """

    frame_id: int
    begin: int
    end: int
    is_last: bool
    rows: Annotated[pa.RecordBatch, Wire(is_late=True)]
    produced_ms: ProducedMs
    produced_runs: ProducedRuns
    generation: Annotated[int, Wire(absent=1)] = 1
    matches: Local[int] = 0
    probes: Annotated[I64 | None, Wire(flag="probes", is_late=True, ascends=True)] = None
    traces: Annotated[pa.Array | None, Wire(coding=TRACES, flag="traces", is_late=True)] = None
    behind: Local[Takeover | None] = None
    sinks: Annotated[int, Wire(absent=1)] = 1
    numbers: Annotated[I64 | None, Wire(flag="numbers", is_late=True)] = None

    @property
    def step(self) -> int:
        """To the next frame in its partition."""
        return self.sinks if self.numbers is None else 1


@dataclass(slots=True)
class HotKeys:
    """The predictor's advice: hot codes by (stream, slot) with estimated counts."""

    version: int
    frame_id: int
    hot: dict[tuple[int, int], tuple[I64, I64]]


#: Names and values, in order; a name may occur several times.
MessageHeaders = tuple[tuple[str, bytes | None], ...]


class Came(NamedTuple):
    """A row as it came: its bytes within the message, and the message's key, headers and time."""

    value: bytes
    key: bytes | None
    headers: MessageHeaders
    timestamp_ms: int | None


def nothing_came(_offset: int, _row: int) -> Came:
    """For rows that came in no message."""
    return Came(b"", None, (), None)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that can't take part: its place, the reason, and the row as it came (see `Came`)."""

    stream: int
    partition: int
    offset: int
    row: int
    reason: str
    detail: str
    value: bytes
    key: Local[bytes | None] = None
    headers: Local[MessageHeaders] = ()
    timestamp_ms: Local[int | None] = None


@dataclass(slots=True)
class Rows:
    """The n parsed, valid rows of one input partition in its order, and the dead letters between them.

    offsets, rows: int64 (n,), each row's offset, and its number within the message
    next_offset: the offset after the last message that was read
    codes: one int64 (n,) per key column; times_us int64 (n,) or None; keys Arrow array (n,); produced_ms int64 (n,)
    heartbeat_us: the partition promises no more rows with event times below this; or None
    latest_ms: the timestamp of the last message that was read, or None
    next_row: its rows that were read, if that message was not read to its end; 0 if it is yet to be read
    as_it_came: returns a row as it came, by its offset and number
    payload: the columns that travel with the rows; None if the query needs none
    members, joins: uint8 (n,), a bit for each stream of the query: whether the row passes the stream's filter
        (members), and isn't void (joins); None if every row joins in the streams of its input. A row that asks joins
        even if it is void, and then has the stream's bit from `model.ASKS_NOTHING` on as well
    """

    offsets: I64
    rows: I64
    next_offset: int
    codes: tuple[I64, ...]
    times_us: I64 | None
    keys: pa.Array
    produced_ms: I64
    dead: list[DeadLetter] = field(default_factory=list)
    heartbeat_us: int | None = None
    payload: pa.RecordBatch | None = None
    members: U8 | None = None
    joins: U8 | None = None
    latest_ms: int | None = None
    as_it_came: Callable[[int, int], Came] = nothing_came
    next_row: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> Place:
        """The place after the last row or message that was read: an offset, and a row in that message."""
        return self.next_offset, self.next_row


def _one_or_each_row(_: object, size: int) -> tuple[int, ...]:
    """The lengths of what a block writes once if its rows share it: a block without rows has none."""
    return min(size, 1), size


@dataclass(slots=True)
class Block:
    """The n coded rows that an intake has read from one input between two places (rule P23).

    first_offset, first_row: the place at which the block begins; next_offset, next_row: where the next one begins
    offsets, rows, produced_ms: int64 (n,) as in `Rows`; offsets, produced_ms: int64 (1,) if all are equal
    rows: int64 (1,), the first of them, if they count up from it in its message, and from 0 in each further one
    refused: the dead letters between its rows, as `protocol.blocks` writes them; None if there are none
    heartbeat_us, latest_ms: NEVER if there is none
    other fields: as in `Rows`
    """

    stream: int
    partition: int
    first_offset: int
    first_row: int
    next_offset: int
    next_row: int
    offsets: Annotated[I64, Wire(ascends=True, lengths=_one_or_each_row)]
    rows: Annotated[I64, Wire(lengths=_one_or_each_row)]
    codes: Codes
    times_us: I64 | None
    keys: pa.Array
    produced_ms: Annotated[I64, Wire(lengths=_one_or_each_row)]
    heartbeat_us: int = NEVER
    latest_ms: int = NEVER
    payload: Seldom[pa.RecordBatch] = None
    members: Seldom[U8] = None
    joins: Seldom[U8] = None
    refused: Annotated[pa.RecordBatch | None, Wire(flag="has_{}", lengths=any_length)] = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def source(self) -> tuple[int, int]:
        """Stream and partition of its input."""
        return self.stream, self.partition

    @property
    def first(self) -> Place:
        """The place at which it begins."""
        return self.first_offset, self.first_row

    @property
    def end(self) -> Place:
        """The place at which the next block begins."""
        return self.next_offset, self.next_row


@dataclass(frozen=True, slots=True)
class InputEnd:
    """An input whose rows come in blocks was read up to `offset`, and held no more then (rule P23)."""

    stream: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Up to where a router has taken rows of each input whose rows come in blocks (rule P23)."""

    source: SourceState


Record = (
    Frame
    | Barrier
    | Partial
    | Run
    | Batch
    | Part
    | Result
    | HotKeys
    | DeadLetter
    | WorkerCount
    | Block
    | InputEnd
    | Positions
    | Presence
    | Announcement
    | Takeover
)
