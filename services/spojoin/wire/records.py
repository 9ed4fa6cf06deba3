"""What travels between services, as plain data over NumPy and Arrow arrays.

Arrays of a received record are views of the message: never write to them. Indexes count tuples of one stream from 0;
seq counts tuples of all streams from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.wire.sums import Sums

I64 = NDArray[np.int64]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The next row to read from an input partition, and its largest event time before that row (-2**63: none yet)."""

    offset: int
    row: int
    high_time_us: int


#: (stream, partition) -> where reading resumes
SourceState = dict[tuple[int, int], SourcePosition]


#: A batch's group where the window moves within a batch.
NO_GROUP = -1


@dataclass(slots=True)
class StreamSlice:
    """One stream's tuples in one frame, n of them, and its bounds, constant over the frame.

    first_index: how many tuples of that stream came before this frame
    positions: uint16 (n,), place of each tuple in the frame, ascending
    codes: one int64 (n,) per key column of the stream
    lower: int64 (1,) or (n,), first index of the *opposite* stream (self join: the same) in each probe's window
    times_us: int64 (n,) or None where the query needs no time
    keys: Arrow int64 or string array (n,), the users' keys
    batch_id, batch_first: the batch that this frame's tuples belong to, and its first index
    seals: whether that batch ends with this frame
    group: batches of one group leave every window together; NO_GROUP where the window moves within a batch
    handover_batch, handover_index: batches below are immutable for this frame's probes, as are tuples below that index
    live_batch: the oldest batch that a window of this frame can reach
    payload: the columns that travel with the tuples, n rows; None where the query needs none
    passed, void: rows of the stream before this frame, and in it, that have no index since an index condition is NULL
        of them: they join nothing, but take a place in windows by count
    places: int64 (n,), place of each tuple among all rows of the stream; None where it is index + passed
    own: of rows that ask, int64 (n,), the index of the right tuple that is the same row, where the two match; else
        NO_OWN, or OWN_VOID where an index condition is NULL of it; None where all are NO_OWN
    """

    first_index: int
    positions: U16
    codes: tuple[I64, ...]
    lower: I64
    times_us: I64 | None
    keys: pa.Array
    batch_id: int
    batch_first: int
    seals: bool
    group: int
    handover_batch: int
    handover_index: int
    live_batch: int
    payload: pa.RecordBatch | None = None
    passed: int = 0
    void: int = 0
    places: I64 | None = None
    own: I64 | None = None
    #: Not of the record: columns that a process has sorted, by slot (see `protocol.sorting`).
    sorted_columns: dict[int, tuple[I64, U16]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def all_places(self) -> I64:
        """The place of each tuple, int64 (n,)."""
        if self.places is not None:
            return self.places
        first = self.first_index + self.passed
        return np.arange(first, first + len(self), dtype=np.int64)


#: Of a row that asks: no tuple that it could find is the row itself; it can find none at all.
NO_OWN, OWN_VOID = -1, -2


@dataclass(slots=True)
class Closing:
    """The rows of a stream that a frame answers, n of them, of which m search (rule P16).

    first: the index of the first of them, or of the first that is still open
    seqs: int64 (n,), ascending
    positions: uint16 (m,), positions among the frame's answers of those that search, ascending: of the others an index
        condition is NULL
    after: uint32 (m,), how many of the frame's rows come before each of them closes: it finds those and earlier ones
    codes: one int64 (m,) per key column of the stream
    lower: int64 (1,) or (m,), first index of the other stream that each may find
    own: int64 (m,), as in `StreamSlice`, None where all are NO_OWN
    reached: the first index of the other stream that a row may find which closes here or is open
    places: uint16 (n,), positions of all n among the frame's answers, ascending; None where these are all the answers
    """

    first: int
    seqs: I64
    positions: U16
    after: U32
    codes: tuple[I64, ...]
    lower: I64
    own: I64 | None
    reached: int
    places: U16 | None = None
    #: Not of the record: columns that a process has sorted, by slot (see `protocol.sorting`).
    sorted_columns: dict[int, tuple[I64, U16]] = field(default_factory=dict, init=False, repr=False)

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
    """Rows of one input that have a number but join nothing, n of them.

    input: its number in the query; positions: uint16 (n,), places in the frame, ascending; keys: as in a slice
    """

    input: int
    positions: U16
    keys: pa.Array

    def __len__(self) -> int:
        return len(self.positions)


#: Keys that are not among the frequent ones are counted together, in this many buckets.
FREQUENCY_BUCKETS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """How often a query's keys occur, as a router found once; before that, empty arrays.

    codes: int64 (k,), the most frequent keys, ascending
    tuples, pairs: uint32 (k + FREQUENCY_BUCKETS,), shares of all tuples, and of all pairs of a left and a right tuple
        with the same key, in units of 2**-32: for each of these keys, then for the other keys in each bucket
    """

    codes: I64
    tuples: U32
    pairs: U32

    def __len__(self) -> int:
        return len(self.tuples)


NO_FREQUENCIES = Frequencies(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))

NONE_HOT: U8 = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Guidance:
    """What a layout needs besides a frame's tuples; at least one of the two isn't empty.

    hot: uint8 (count,), 1 where the predictor calls a tuple's key hot
    frequencies: of keys, the same in every frame once they are known
    """

    hot: U8 = field(default_factory=lambda: NONE_HOT)
    frequencies: Frequencies = NO_FREQUENCIES


NONE_SILENT: U8 = np.empty(0, np.uint8)


@dataclass(slots=True)
class Frame:
    """A run of consecutive tuples with everything a reader needs to evaluate it (the log's main record).

    previous_link and link chain the source offsets: a reader accepts only the frame that follows its link (rule P3).
    produced_ms, produced_runs: run-length coded times at which the inputs were produced, in frame order
    rejected: cumulative count of rows refused, by reason
    checkpoint: what only a router needs to resume here (event-time merge), opaque to all others
    guidance: for a layout that needs more than the tuples; None until it is known, and for all other layouts
    fingerprint: of the query's meaning; 0 in logs that are older than it
    silent: uint8 (answers,), 1 where an earlier generation has given the answer; empty where none has (rule P12)
    unjoined: rows in no slice
    is_shared: whether both slices are of one input, so that a row may stand in both
    closings: of a query whose left rows ask, those that it answers here, and where both sides do, the right ones as
        well; empty where each tuple answers
    """

    epoch: int
    frame_id: int
    first_seq: int
    count: int
    slices: tuple[StreamSlice, ...]
    workers: int
    previous_link: int
    link: int
    source: SourceState
    checkpoint: bytes
    rejected: dict[str, int]
    produced_ms: I64
    produced_runs: U32
    guidance: Guidance | None = None
    fingerprint: int = 0
    silent: U8 = field(default_factory=lambda: NONE_SILENT)
    unjoined: tuple[Unjoined, ...] = ()
    is_shared: bool = False
    closings: tuple[Closing, ...] = ()

    @property
    def answers(self) -> int:
        """How many answers the frame asks for: one a tuple, or one a row that closes with it."""
        return sum(len(each.seqs) for each in self.closings) if self.closings else self.count

    @property
    def is_silent(self) -> bool:
        """Whether no answer is needed: all rows only fill windows."""
        return len(self.silent) > 0 and bool(self.silent.all())

    @property
    def is_answered(self) -> bool:
        """Whether parts report on the frame: answers are asked for, and not all of them were given before."""
        return self.answers > 0 and not self.is_silent

    def probes(self, stream: int) -> Probes:
        """What searches on behalf of a stream."""
        return self.closings[stream] if self.closings else self.slices[stream]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A router's claim to the log: frames of older epochs that follow it are void.

    fingerprint: of the query's meaning; 0 in logs that are older than it
    closes: whether to ignore all that follows, because another generation of the query continues (rule P12)
    checkpoint: of one that closes, where rows are in event-time order: the router's last one and what it has refused
    first_indexes: the index of each stream's first row in this log; empty if all are 0
    first_seq: the number of its first row of all; 0 where that is the sum of `first_indexes`, as when no row stands in
        two streams
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
    inputs: the topics of its inputs, in their order; empty in announcements that are older than it
    owner: whose query it is, to whom its name belongs then; empty in announcements that are older than it
    adopts: the owner that the name is taken over from; empty where it is nobody's yet, or the owner's already
    """

    generation: int
    fingerprint: int
    text: str
    backfill: str
    inputs: tuple[str, ...] = ()
    owner: str = ""
    adopts: str = ""


@dataclass(frozen=True, slots=True)
class Takeover:
    """A generation begins where `from_generation` stopped: all rows before `source` have been answered or refused.

    counts: rows of each stream of that generation, numbered: its rows with a number, rejected: its refused rows by
        reason. Streams are those of that generation; `source` counts its inputs.
    checkpoint: its router's last one, if rows behind `source` were answered in event-time order; else empty
    lateness_us: how far event times might run back, for it or a generation before it
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
    """An instance of a service is alive (rule P15).

    instance: which of its instances; life: distinguishes its restarts
    term: with `speaks`, of the instance's right to speak; else the latest that it has heard of
    """

    service: str
    instance: str
    life: str
    term: int
    speaks: bool


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """A request: from a later frame on, PO-Join workers 0..workers-1 share the batches. The largest version counts."""

    version: int
    workers: int


@dataclass(slots=True)
class DirectionRanks:
    """Rank intervals of a frame's m probes of one direction among the target's n mutable tuples, for one predicate.

    positions: uint16 (n,), rank of each stored tuple in sort order, listed by arrival from the handover index on
    start, length: uint16 (m,); the predicate holds iff (position - start) mod 2**16 < length
    """

    positions: U16
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
    codes: I64
    order: U16


@dataclass(slots=True)
class Run:
    """One mutable joiner's sorted columns of a sealed batch.

    The joiner of predicate 0 is the carrier: it adds seqs int64 (n,), times_us, keys, payload and places; None
    elsewhere. places: int64 (n,), as in `StreamSlice`, None where all are the tuples' indexes
    lower, own: int64 (n,), of rows that ask, as in `StreamSlice`; None of others
    An empty run says that the log no longer holds this batch, nor older ones: they were made, or have expired.
    """

    stream: int
    batch_id: int
    first: int
    end: int
    group: int
    predicate: int
    columns: tuple[SortedColumn, ...]
    seqs: I64 | None
    times_us: I64 | None
    keys: pa.Array | None
    payload: pa.RecordBatch | None = None
    places: I64 | None = None
    lower: I64 | None = None
    own: I64 | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it holds no tuples."""
        return self.first == self.end


@dataclass(slots=True)
class Batch:
    """An immutable batch of one stream: tuples first..end-1, with all key columns sorted, and permutations.

    columns: by slot, each once
    permutations: per (slot_a, slot_b), uint16 (n,): rank in slot_b of the tuple with rank i in slot_a
    payload, places, lower, own: as in `Run`
    """

    stream: int
    batch_id: int
    first: int
    end: int
    group: int
    columns: tuple[SortedColumn, ...]
    permutations: dict[tuple[int, int], U16]
    seqs: I64
    times_us: I64 | None
    keys: pa.Array | None
    payload: pa.RecordBatch | None = None
    places: I64 | None = None
    lower: I64 | None = None
    own: I64 | None = None


@dataclass(slots=True)
class Matches:
    """One direction's matches of the m probes in a part: counts int64 (m,) and, except for count output, the partners.

    offsets: int64 (m + 1,), partners: int64 seqs ascending within a probe, possibly cut at the query's limit, or only
    those that its choices need (counts are still complete); None for count output.
    sums: of what partners add to aggregates, where parts sum it; None where they don't, or where all are 0
    """

    counts: I64
    offsets: I64 | None = None
    partners: I64 | None = None
    sums: Sums | None = None


@dataclass(slots=True)
class Part:
    """What one part (0: mutable, 1 + w: PO-Join worker w) found for frame positions [begin, end) of a frame.

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
    """Final rows for frame positions [begin, end) of a frame, in output order, as an Arrow record batch.

    `is_last` is whether `end` is the frame's count. `produced_ms`/`produced_runs` as in the frame, for latency.
    `generation` is the query's generation that answered. `matches` is the number of matches if `rows` must be unpacked
    to count them, as with bitmaps; else 0.

    probes: of a select list, int64 (n,), ascending, for each of n rows the seq of the row that answered; where rows of
        both sides ask, the number of its answer; None for other outputs
    traces: its `traceparent`, an Arrow string array (n,), null where it has none; None where nobody asks for it
    behind: where the next generation would begin if this one ended behind this result; None where nobody asks for it
    """

    frame_id: int
    begin: int
    end: int
    is_last: bool
    rows: pa.RecordBatch
    produced_ms: I64
    produced_runs: U32
    generation: int = 1
    matches: int = 0
    probes: I64 | None = None
    traces: pa.Array | None = None
    behind: Takeover | None = None


@dataclass(slots=True)
class HotKeys:
    """The predictor's advice: hot codes by (stream, slot) with estimated counts."""

    version: int
    frame_id: int
    hot: dict[tuple[int, int], tuple[I64, I64]]


#: Names and values, in order; a name may stand several times.
MessageHeaders = tuple[tuple[str, bytes | None], ...]


class Came(NamedTuple):
    """A row as it came: its message, or of several rows in one its own bytes; the message's key, headers and time."""

    value: bytes
    key: bytes | None
    headers: MessageHeaders
    timestamp_ms: int | None


def nothing_came(_offset: int, _row: int) -> Came:
    """Of rows that no messages brought."""
    return Came(b"", None, (), None)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that could not take part: its place, the reason, and what came: see `Came`."""

    stream: int
    partition: int
    offset: int
    row: int
    reason: str
    detail: str
    value: bytes
    key: bytes | None = None
    headers: MessageHeaders = ()
    timestamp_ms: int | None = None


@dataclass(slots=True)
class Rows:
    """Parsed, valid rows of one input partition in its order, n of them, and the dead letters between them.

    offsets int64 (n,) and rows int64 (n,) give their places; `next_offset` follows the last message looked at.
    codes: one int64 (n,) per key column; times_us int64 (n,) or None; keys Arrow array (n,); produced_ms int64 (n,)
    heartbeat_us: event time below which the partition promises no more rows, or None
    latest_ms: the timestamp of the last message looked at, or None
    as_it_came: gives a row by its place, offset and number
    payload: the columns that travel with the rows; None where the query needs none
    members, joins: uint8 (n,), a bit for each stream of the query: whether the row passes its filter, and whether, in
        addition, its index conditions are not NULL; None where every row joins in the streams of its input. A row that
        asks joins in any case; where they are NULL, it has the stream's bit from `model.ASKS_NOTHING` on besides
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

    def __len__(self) -> int:
        return len(self.offsets)


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
    | Presence
    | Announcement
    | Takeover
)
