"""Each record's protobuf header and the order of its columns: one writer and one reader per type, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message

from spojoin.errors import WireError
from spojoin.model import TRACEPARENT
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.columns import ColumnReader, ColumnWriter, memory
from spojoin.wire.records import (
    I64,
    NO_FREQUENCIES,
    NONE_HOT,
    NONE_SILENT,
    Announcement,
    Barrier,
    Batch,
    Closing,
    DeadLetter,
    DirectionRanks,
    Frame,
    Frequencies,
    Guidance,
    HotKeys,
    Matches,
    Part,
    Partial,
    Presence,
    Record,
    Result,
    Run,
    SortedColumn,
    SourcePosition,
    SourceState,
    StreamSlice,
    Takeover,
    Unjoined,
    WorkerCount,
)
from spojoin.wire.sums import Sums


class Form(NamedTuple):
    """How a record type travels: its field in the envelope, its writer (record, header, columns), its reader."""

    field: str
    write: Callable[[Any, Any, ColumnWriter], None]
    read: Callable[[Any, ColumnReader], Record]


def _copy(source: Record | StreamSlice | Closing, target: Message, names: Iterable[str]) -> None:
    for name in names:
        setattr(target, name, getattr(source, name))


def _taken(header: Message, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(header, name) for name in names}


_SLICE = (
    "first_index",
    "batch_id",
    "batch_first",
    "seals",
    "group",
    "handover_batch",
    "handover_index",
    "live_batch",
    "passed",
    "void",
)
_FRAME = (
    "epoch",
    "frame_id",
    "first_seq",
    "count",
    "workers",
    "previous_link",
    "link",
    "checkpoint",
    "fingerprint",
    "is_shared",
)


def _write_frame(frame: Frame, header: pb.Frame, columns: ColumnWriter) -> None:
    _copy(frame, header, _FRAME)
    header.rejected.update(frame.rejected)
    _write_source(frame.source, header)
    for part in frame.slices:
        _write_slice(part, header.slices.add(), columns)
    columns.array(frame.produced_ms, np.int64)
    columns.array(frame.produced_runs, np.uint32)
    if frame.guidance is not None:
        _write_guidance(frame.guidance, header, columns)
    header.has_silent = len(frame.silent) > 0
    if header.has_silent:
        columns.array(frame.silent, np.uint8)
    before = columns.count
    for rows in frame.unjoined:
        header.unjoined.append(rows.input)
        columns.array(rows.positions, np.uint16)
        columns.keys(rows.keys)
    header.unjoined_columns = columns.count - before
    before = columns.count
    for closing, field in zip(frame.closings, _closing_fields(header), strict=False):
        _write_closing(closing, field, columns)
    header.closing_columns = columns.count - before


_CLOSING = ("first", "reached")


def _closing_fields(header: pb.Frame) -> tuple[pb.Closing, pb.Closing]:
    """The rows that close, of the left and of the right side."""
    return header.closing, header.right_closing


def _write_closing(closing: Closing, header: pb.Closing, columns: ColumnWriter) -> None:
    _copy(closing, header, _CLOSING)
    header.code_columns = len(closing.codes)
    columns.array(closing.seqs, np.int64)
    columns.array(closing.positions, np.uint16)
    columns.array(closing.after, np.uint32)
    for codes in closing.codes:
        columns.array(codes, np.int64)
    columns.array(closing.lower, np.int64)
    columns.optional(closing.own, np.int64)
    header.has_places = closing.places is not None
    if closing.places is not None:
        columns.array(closing.places, np.uint16)


def _read_closing(header: pb.Closing, columns: ColumnReader) -> Closing:
    return Closing(
        **_taken(header, _CLOSING),
        seqs=columns.array(np.int64),
        positions=columns.array(np.uint16),
        after=columns.array(np.uint32),
        codes=tuple(columns.array(np.int64) for _ in range(header.code_columns)),
        lower=columns.array(np.int64),
        own=columns.optional(np.int64),
        places=columns.array(np.uint16) if header.has_places else None,
    )


def _write_guidance(guidance: Guidance, header: pb.Frame, columns: ColumnWriter) -> None:
    if len(guidance.hot):
        columns.array(guidance.hot, np.uint8)
    header.has_frequencies = len(guidance.frequencies) > 0
    if header.has_frequencies:
        columns.array(guidance.frequencies.codes, np.int64)
        columns.array(guidance.frequencies.tuples, np.uint32)
        columns.array(guidance.frequencies.pairs, np.uint32)


def _write_source(source: SourceState, header: pb.Frame | pb.Takeover) -> None:
    for (stream, partition), at in source.items():
        header.source.add(
            stream=stream, partition=partition, offset=at.offset, row=at.row, high_time_us=at.high_time_us
        )


def _read_source(header: pb.Frame | pb.Takeover) -> SourceState:
    return {(s.stream, s.partition): SourcePosition(s.offset, s.row, s.high_time_us) for s in header.source}


def _write_slice(part: StreamSlice, header: pb.StreamSlice, columns: ColumnWriter) -> None:
    _copy(part, header, _SLICE)
    header.code_columns = len(part.codes)
    columns.array(part.positions, np.uint16)
    for codes in part.codes:
        columns.array(codes, np.int64)
    columns.array(part.lower, np.int64)
    columns.optional(part.times_us, np.int64)
    columns.keys(part.keys)
    _write_extras(part, header, columns)


def _write_extras(
    carrier: StreamSlice | Run | Batch, header: pb.StreamSlice | pb.Run | pb.Batch, columns: ColumnWriter
) -> None:
    """Columns that most queries have not: payload, places, and of rows that ask, which tuple each of them is itself."""
    header.has_payload = carrier.payload is not None
    if carrier.payload is not None:
        columns.buffer(memory(ipc_bytes(carrier.payload)))
    header.has_places = carrier.places is not None
    if carrier.places is not None:
        columns.array(carrier.places, np.int64)
    header.has_own = carrier.own is not None
    if carrier.own is not None:
        columns.array(carrier.own, np.int64)


def _read_extras(header: pb.StreamSlice | pb.Run | pb.Batch, columns: ColumnReader) -> dict[str, Any]:
    return {
        "payload": ipc_batch(columns.buffer()) if header.has_payload else None,
        "places": columns.array(np.int64) if header.has_places else None,
        "own": columns.array(np.int64) if header.has_own else None,
    }


def _write_lower(carrier: Run | Batch, header: pb.Run | pb.Batch, columns: ColumnWriter) -> None:
    header.has_lower = carrier.lower is not None
    if carrier.lower is not None:
        columns.array(carrier.lower, np.int64)


def _read_lower(header: pb.Run | pb.Batch, columns: ColumnReader) -> I64 | None:
    return columns.array(np.int64) if header.has_lower else None


def _read_frame(header: pb.Frame, columns: ColumnReader) -> Frame:
    return Frame(
        **_taken(header, _FRAME),
        slices=tuple(_read_slice(part, columns) for part in header.slices),
        source=_read_source(header),
        rejected=dict(header.rejected),
        produced_ms=columns.array(np.int64),
        produced_runs=columns.array(np.uint32),
        guidance=_read_guidance(header, columns),
        silent=columns.array(np.uint8) if header.has_silent else NONE_SILENT,
        unjoined=tuple(
            Unjoined(number, columns.array(np.uint16), columns.present_keys()) for number in header.unjoined
        ),
        closings=tuple(
            _read_closing(field, columns)
            for name, field in zip(("closing", "right_closing"), _closing_fields(header), strict=True)
            if header.HasField(name)
        ),
    )


def _read_guidance(header: pb.Frame, columns: ColumnReader) -> Guidance | None:
    """Hot flags are present if one more column is left than the header calls for; older frames always have it."""
    called_for = 3 * header.has_frequencies + header.has_silent + header.unjoined_columns + header.closing_columns
    hot = columns.array(np.uint8) if columns.left > called_for else NONE_HOT
    found = _read_frequencies(columns) if header.has_frequencies else NO_FREQUENCIES
    return Guidance(hot, found) if len(hot) or len(found) else None


def _read_frequencies(columns: ColumnReader) -> Frequencies:
    return Frequencies(columns.array(np.int64), columns.array(np.uint32), columns.array(np.uint32))


def _read_slice(header: pb.StreamSlice, columns: ColumnReader) -> StreamSlice:
    return StreamSlice(
        **_taken(header, _SLICE),
        positions=columns.array(np.uint16),
        codes=tuple(columns.array(np.int64) for _ in range(header.code_columns)),
        lower=columns.array(np.int64),
        times_us=columns.optional(np.int64),
        keys=columns.present_keys(),
        **_read_extras(header, columns),
    )


_BARRIER = ("epoch", "router_id", "fingerprint", "closes", "first_seq", "checkpoint")


def _write_barrier(barrier: Barrier, header: pb.Barrier, columns: ColumnWriter) -> None:
    _copy(barrier, header, _BARRIER)
    header.first_indexes.extend(barrier.first_indexes)


def _read_barrier(header: pb.Barrier, columns: ColumnReader) -> Barrier:
    return Barrier(**_taken(header, _BARRIER), first_indexes=tuple(header.first_indexes))


_PARTIAL = ("epoch", "frame_id", "predicate")


def _write_partial(partial: Partial, header: pb.Partial, columns: ColumnWriter) -> None:
    _copy(partial, header, _PARTIAL)
    header.directions = len(partial.directions)
    for direction in partial.directions:
        for values in (direction.positions, direction.start, direction.length):
            columns.array(values, np.uint16)


def _read_partial(header: pb.Partial, columns: ColumnReader) -> Partial:
    directions = tuple(DirectionRanks(*(columns.array(np.uint16) for _ in range(3))) for _ in range(header.directions))
    return Partial(**_taken(header, _PARTIAL), directions=directions)


_RUN = ("stream", "batch_id", "first", "end", "group", "predicate")


def _write_run(run: Run, header: pb.Run, columns: ColumnWriter) -> None:
    _copy(run, header, _RUN)
    _write_sorted(run.columns, header, columns)
    columns.optional(run.seqs, np.int64)
    columns.optional(run.times_us, np.int64)
    columns.keys(run.keys)
    _write_extras(run, header, columns)
    _write_lower(run, header, columns)


def _read_run(header: pb.Run, columns: ColumnReader) -> Run:
    return Run(
        **_taken(header, _RUN),
        columns=_read_sorted(header, columns),
        seqs=columns.optional(np.int64),
        times_us=columns.optional(np.int64),
        keys=columns.keys(),
        **_read_extras(header, columns),
        lower=_read_lower(header, columns),
    )


_BATCH = ("stream", "batch_id", "first", "end", "group")


def _write_batch(batch: Batch, header: pb.Batch, columns: ColumnWriter) -> None:
    _copy(batch, header, _BATCH)
    _write_sorted(batch.columns, header, columns)
    for (slot_a, slot_b), ranks in batch.permutations.items():
        header.permutations.add(slot_a=slot_a, slot_b=slot_b)
        columns.array(ranks, np.uint16)
    columns.array(batch.seqs, np.int64)
    columns.optional(batch.times_us, np.int64)
    columns.keys(batch.keys)
    _write_extras(batch, header, columns)
    _write_lower(batch, header, columns)


def _read_batch(header: pb.Batch, columns: ColumnReader) -> Batch:
    return Batch(
        **_taken(header, _BATCH),
        columns=_read_sorted(header, columns),
        permutations={(pair.slot_a, pair.slot_b): columns.array(np.uint16) for pair in header.permutations},
        seqs=columns.array(np.int64),
        times_us=columns.optional(np.int64),
        keys=columns.keys(),
        **_read_extras(header, columns),
        lower=_read_lower(header, columns),
    )


def _write_sorted(sorted_columns: Iterable[SortedColumn], header: pb.Run | pb.Batch, columns: ColumnWriter) -> None:
    for column in sorted_columns:
        header.slots.append(column.slot)
        columns.array(column.codes, np.int64)
        columns.array(column.order, np.uint16)


def _read_sorted(header: pb.Run | pb.Batch, columns: ColumnReader) -> tuple[SortedColumn, ...]:
    return tuple(SortedColumn(slot, columns.array(np.int64), columns.array(np.uint16)) for slot in header.slots)


_PART = ("epoch", "frame_id", "part", "begin", "end")


def _write_part(part: Part, header: pb.Part, columns: ColumnWriter) -> None:
    _copy(part, header, _PART)
    header.directions = len(part.directions)
    for direction in part.directions:
        columns.array(direction.counts, np.int64)
        columns.optional(direction.offsets, np.int64)
        columns.optional(direction.partners, np.int64)
        header.sums.append(0 if direction.sums is None else len(direction.sums.keys))
        if direction.sums is not None and len(direction.sums.keys):
            columns.array(direction.sums.keys, np.int64)
            columns.array(np.ravel(direction.sums.rows), np.int64)


def _read_part(header: pb.Part, columns: ColumnReader) -> Part:
    directions = tuple(
        Matches(
            columns.array(np.int64),
            columns.optional(np.int64),
            columns.optional(np.int64),
            _read_sums(header.sums[number] if number < len(header.sums) else 0, columns),
        )
        for number in range(header.directions)
    )
    return Part(**_taken(header, _PART), directions=directions)


def _read_sums(count: int, columns: ColumnReader) -> Sums | None:
    if not count:
        return None
    keys, rows = columns.array(np.int64), columns.array(np.int64)
    if len(keys) != count or len(rows) % count:
        raise WireError(f"a part's sums have {len(keys)} keys and {len(rows)} values, expected {count} rows of them")
    return Sums(keys, rows.reshape(count, -1))


_RESULT = ("frame_id", "begin", "end", "is_last", "generation")


def _write_result(result: Result, header: pb.Result, columns: ColumnWriter) -> None:
    _copy(result, header, _RESULT)
    columns.array(result.produced_ms, np.int64)
    columns.array(result.produced_runs, np.uint32)
    columns.buffer(memory(ipc_bytes(result.rows)))
    header.probes, header.traces = result.probes is not None, result.traces is not None
    if result.probes is not None:
        columns.array(result.probes, np.int64)
    if result.traces is not None:
        columns.buffer(memory(ipc_bytes(pa.record_batch({TRACEPARENT: result.traces}))))


def _read_result(header: pb.Result, columns: ColumnReader) -> Result:
    known = _taken(header, _RESULT)
    known["generation"] = known["generation"] or 1
    return Result(
        **known,
        produced_ms=columns.array(np.int64),
        produced_runs=columns.array(np.uint32),
        rows=ipc_batch(columns.buffer()),
        probes=columns.array(np.int64) if header.probes else None,
        traces=ipc_batch(columns.buffer()).column(0) if header.traces else None,
    )


def ipc_bytes(rows: pa.RecordBatch) -> pa.Buffer:
    """A record batch as a whole Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def ipc_batch(data: bytes | memoryview) -> pa.RecordBatch:
    """The one record batch of an Arrow IPC stream, over the same bytes; WireError unless there is exactly one.

    Arrow itself takes offsets that lead out of the bytes, and texts and names that are no UTF-8: readers would meet
    them later, or end.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
            _ = batch.schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise WireError(f"the rows of a result are no Arrow IPC stream: {error}") from error
    if len(batches) != 1:
        raise WireError(f"the rows of a result hold {len(batches)} Arrow record batches, expected 1")
    return batches[0]


_HOT_KEYS = ("version", "frame_id")


def _write_hot_keys(plan: HotKeys, header: pb.HotKeys, columns: ColumnWriter) -> None:
    _copy(plan, header, _HOT_KEYS)
    for (stream, slot), (codes, counts) in plan.hot.items():
        header.hot.add(stream=stream, slot=slot)
        columns.array(codes, np.int64)
        columns.array(counts, np.int64)


def _read_hot_keys(header: pb.HotKeys, columns: ColumnReader) -> HotKeys:
    hot = {(at.stream, at.slot): (columns.array(np.int64), columns.array(np.int64)) for at in header.hot}
    return HotKeys(**_taken(header, _HOT_KEYS), hot=hot)


_DEAD_LETTER = ("stream", "partition", "offset", "row", "reason", "detail", "value")


def _write_dead_letter(dead: DeadLetter, header: pb.DeadLetter, columns: ColumnWriter) -> None:
    _copy(dead, header, _DEAD_LETTER)


def _read_dead_letter(header: pb.DeadLetter, columns: ColumnReader) -> DeadLetter:
    return DeadLetter(**_taken(header, _DEAD_LETTER))


_WORKER_COUNT = ("version", "workers")


def _write_worker_count(count: WorkerCount, header: pb.WorkerCount, columns: ColumnWriter) -> None:
    _copy(count, header, _WORKER_COUNT)


def _read_worker_count(header: pb.WorkerCount, columns: ColumnReader) -> WorkerCount:
    return WorkerCount(**_taken(header, _WORKER_COUNT))


_PRESENCE = ("service", "instance", "life", "term", "speaks")


def _write_presence(presence: Presence, header: pb.Presence, columns: ColumnWriter) -> None:
    _copy(presence, header, _PRESENCE)


def _read_presence(header: pb.Presence, columns: ColumnReader) -> Presence:
    return Presence(**_taken(header, _PRESENCE))


_ANNOUNCEMENT = ("generation", "fingerprint", "text", "backfill", "owner", "adopts")


def _write_announcement(announcement: Announcement, header: pb.Announcement, columns: ColumnWriter) -> None:
    _copy(announcement, header, _ANNOUNCEMENT)
    header.inputs.extend(announcement.inputs)


def _read_announcement(header: pb.Announcement, columns: ColumnReader) -> Announcement:
    return Announcement(**_taken(header, _ANNOUNCEMENT), inputs=tuple(header.inputs))


_TAKEOVER = ("generation", "from_generation", "checkpoint", "lateness_us", "numbered")


def _write_takeover(takeover: Takeover, header: pb.Takeover, columns: ColumnWriter) -> None:
    _copy(takeover, header, _TAKEOVER)
    _write_source(takeover.source, header)
    header.counts.extend(takeover.counts)
    header.rejected.update(takeover.rejected)


def _read_takeover(header: pb.Takeover, columns: ColumnReader) -> Takeover:
    return Takeover(
        **_taken(header, _TAKEOVER),
        source=_read_source(header),
        counts=tuple(header.counts),
        rejected=dict(header.rejected),
    )


FORMS: dict[type[Record], Form] = {
    Frame: Form("frame", _write_frame, _read_frame),
    Barrier: Form("barrier", _write_barrier, _read_barrier),
    Partial: Form("partial", _write_partial, _read_partial),
    Run: Form("run", _write_run, _read_run),
    Batch: Form("batch", _write_batch, _read_batch),
    Part: Form("part", _write_part, _read_part),
    Result: Form("result", _write_result, _read_result),
    HotKeys: Form("hot_keys", _write_hot_keys, _read_hot_keys),
    DeadLetter: Form("dead_letter", _write_dead_letter, _read_dead_letter),
    WorkerCount: Form("worker_count", _write_worker_count, _read_worker_count),
    Presence: Form("presence", _write_presence, _read_presence),
    Announcement: Form("announcement", _write_announcement, _read_announcement),
    Takeover: Form("takeover", _write_takeover, _read_takeover),
}
