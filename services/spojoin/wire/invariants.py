"""What readers rely on without checking again: lengths that agree, offsets that rise, ranks inside their range.

`check` raises WireError for the first violation. It runs on both sides of the wire, so a record that no reader could
use never enters a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spojoin.errors import WireError
from spojoin.wire.records import (
    FREQUENCY_BUCKETS,
    Batch,
    Closing,
    DirectionRanks,
    Frame,
    Frequencies,
    Guidance,
    HotKeys,
    Matches,
    Part,
    Partial,
    Record,
    Result,
    Run,
    SortedColumn,
    StreamSlice,
    Unjoined,
    WorkerCount,
)

#: positions and ranks are uint16, so a frame or a batch holds at most this many tuples
TUPLES_MAX = 1 << 16


def check(record: Record) -> None:
    """Raise WireError unless the record's parts agree with each other."""
    rule = _RULES.get(type(record))
    if rule is not None:
        rule(record)


def _fail(text: str) -> NoReturn:
    raise WireError(text)


def _expect_length(name: str, values: Sized | None, *allowed: int) -> None:
    if values is not None and len(values) not in allowed:
        _fail(f"{name} has {len(values)} entries, expected {' or '.join(map(str, allowed))}")


def _expect_tuples(name: str, count: int) -> None:
    if not 0 <= count <= TUPLES_MAX:
        _fail(f"{name} holds {count} tuples, expected 0 to {TUPLES_MAX}")


def _check_frame(frame: Frame) -> None:
    where = f"frame {frame.frame_id}"
    _expect_tuples(where, frame.count)
    _expect_length(f"{where}: slices", frame.slices, 1, 2)
    for part in frame.slices:
        _check_slice(where, part)
    _check_positions(where, frame)
    _check_produced(where, frame.produced_ms, frame.produced_runs)
    if (total := int(frame.produced_runs.sum())) != frame.count:
        _fail(f"{where}: produced_runs add up to {total}, expected {frame.count}")
    _expect_length(f"{where}: silent", frame.silent, 0, frame.answers)
    _expect_tuples(f"{where}: rows that close", frame.answers)
    for closing in frame.closings:
        _check_closing(where, closing, frame)
    _check_places(where, frame)
    if frame.guidance is not None:
        _check_guidance(where, frame.guidance, frame.count)


def _check_places(where: str, frame: Frame) -> None:
    """That the rows which close take each position once: those of one side alone, or of two together."""
    if len(frame.closings) < 2:
        if any(closing.places is not None for closing in frame.closings):
            _fail(f"{where}: positions of all rows that close, expected them where both sides ask")
        return
    _expect_length(f"{where}: slices beside rows of two sides that close", frame.slices, 2)
    taken = np.sort(np.concatenate([closing.all_places for closing in frame.closings]))
    if any(closing.places is None for closing in frame.closings) or (taken != np.arange(len(taken))).any():
        _fail(f"{where}: rows of two sides close, expected each of their {frame.answers} positions once")


def _check_closing(where: str, closing: Closing, frame: Frame) -> None:
    where, count = f"{where}: rows that close", frame.count
    _expect_length(f"{where}: positions of all", closing.places, len(closing.seqs))
    _expect_rising(f"{where}: positions of all", closing.all_places)
    if not np.isin(closing.positions, closing.all_places).all():
        _fail(f"{where}: a position that none of them has")
    _expect_rising(f"{where}: seqs", closing.seqs)
    _expect_rising(f"{where}: positions", closing.positions)
    m = len(closing)
    for name, values in (("after", closing.after), ("own", closing.own), *_by_slot(closing.codes)):
        _expect_length(f"{where}: {name}", values, m)
    _expect_length(f"{where}: lower", closing.lower, 1, m)
    _expect_below(f"{where}: after", closing.after, count + 1)
    if (closing.after[1:] < closing.after[:-1]).any():
        _fail(f"{where}: the rows before them become fewer")


def _by_slot(codes: tuple[NDArray[np.int64], ...]) -> list[tuple[str, NDArray[np.int64]]]:
    return [(f"codes of slot {slot}", column) for slot, column in enumerate(codes)]


def _check_guidance(where: str, guidance: Guidance, count: int) -> None:
    if not len(guidance.hot) and not len(guidance.frequencies.codes) and not len(guidance.frequencies):
        _fail(f"{where}: its guidance says nothing, expected none at all")
    _expect_length(f"{where}: hot", guidance.hot, 0, count)
    _check_frequencies(where, guidance.frequencies)


def _check_frequencies(where: str, found: Frequencies) -> None:
    expected = len(found.codes) + FREQUENCY_BUCKETS if len(found) or len(found.codes) else 0
    _expect_length(f"{where}: tuples of frequencies", found.tuples, expected)
    _expect_length(f"{where}: pairs of frequencies", found.pairs, expected)
    _expect_rising(f"{where}: codes of frequencies", found.codes)


def _check_slice(where: str, part: StreamSlice) -> None:
    n = len(part)
    for name, codes in _by_slot(part.codes):
        _expect_length(f"{where}: {name}", codes, n)
    _expect_length(f"{where}: lower", part.lower, 1, n)
    _expect_length(f"{where}: times_us", part.times_us, n)
    if part.keys is None:
        _fail(f"{where}: keys are absent, expected {n}")
    _expect_length(f"{where}: keys", part.keys, n)
    _check_extras(where, part, n)
    if part.batch_first > part.first_index:
        _fail(f"{where}: batch_first {part.batch_first} lies after first_index {part.first_index}")


def _check_extras(where: str, record: StreamSlice | Run | Batch, n: int) -> None:
    if record.payload is not None and record.payload.num_rows != n:
        _fail(f"{where}: payload has {record.payload.num_rows} rows, expected {n}")
    _expect_length(f"{where}: places", record.places, n)
    _expect_length(f"{where}: own", record.own, n)


def _check_positions(where: str, frame: Frame) -> None:
    """Check that all ascending positions together are 0..count-1, each once, or at least once where slices share."""
    parts: list[StreamSlice | Unjoined] = [*frame.slices, *frame.unjoined]
    total = sum(map(len, parts))
    if total < frame.count or (total > frame.count and not frame.is_shared):
        _fail(f"{where}: slices hold {total} tuples, expected {frame.count}")
    for part in parts:
        _expect_rising(f"{where}: positions", part.positions)
        _expect_below(f"{where}: positions", part.positions, frame.count)
    if len(parts) > 1:
        _expect_all(where, frame, [part.positions for part in parts])
    for rows in frame.unjoined:
        _expect_length(f"{where}: keys of unjoined rows", rows.keys, len(rows))


def _expect_all(where: str, frame: Frame, positions: Iterable[NDArray[np.uint16]]) -> None:
    """Check that no position is missing; so, unless slices share, none occurs twice."""
    taken = np.zeros(frame.count, np.bool_)
    for part in positions:
        taken[part] = True
    if not taken.all():
        _fail(f"{where}: both slices claim one position, and {int((~taken).sum())} are claimed by none")


def _check_produced(where: str, produced_ms: NDArray[np.int64], produced_runs: NDArray[np.uint32]) -> None:
    _expect_length(f"{where}: produced_runs", produced_runs, len(produced_ms))


def _check_partial(partial: Partial) -> None:
    where = f"partial of frame {partial.frame_id}, predicate {partial.predicate}"
    for direction in partial.directions:
        _check_ranks(where, direction)


def _check_ranks(where: str, direction: DirectionRanks) -> None:
    _expect_length(f"{where}: length", direction.length, len(direction.start))


def _check_run(run: Run) -> None:
    where = f"run of stream {run.stream}, batch {run.batch_id}"
    n = _batch_length(where, run.first, run.end)
    _check_sorted(where, run.columns, n)
    for name in ("seqs", "times_us", "keys", "lower"):
        _expect_length(f"{where}: {name}", getattr(run, name), n)
    _check_extras(where, run, n)


def _check_batch(batch: Batch) -> None:
    where = f"batch {batch.batch_id} of stream {batch.stream}"
    n = _batch_length(where, batch.first, batch.end)
    _check_sorted(where, batch.columns, n)
    slots = {column.slot for column in batch.columns}
    for pair, ranks in batch.permutations.items():
        if not slots.issuperset(pair):
            _fail(f"{where}: a permutation maps slot {pair[0]} to {pair[1]}, but the columns are {sorted(slots)}")
        _expect_length(f"{where}: permutation {pair}", ranks, n)
        _expect_below(f"{where}: permutation {pair}", ranks, n)
    for name in ("seqs", "times_us", "keys", "lower"):
        _expect_length(f"{where}: {name}", getattr(batch, name), n)
    _check_extras(where, batch, n)


def _batch_length(where: str, first: int, end: int) -> int:
    _expect_tuples(where, end - first)
    return end - first


def _check_sorted(where: str, columns: Iterable[SortedColumn], n: int) -> None:
    for column in columns:
        name = f"{where}: slot {column.slot}"
        _expect_length(f"{name}: codes", column.codes, n)
        _expect_length(f"{name}: order", column.order, n)
        _expect_below(f"{name}: order", column.order, n)
        if (column.codes[1:] < column.codes[:-1]).any():
            _fail(f"{name}: codes do not ascend")


def _check_part(part: Part) -> None:
    where = f"part {part.part} of frame {part.frame_id}"
    _check_range(where, part.begin, part.end)
    for direction in part.directions:
        _check_matches(where, direction)


def _check_matches(where: str, direction: Matches) -> None:
    if direction.sums is not None:
        _expect_length(f"{where}: sums", direction.sums, len(direction.counts))
        _expect_rising(f"{where}: keys of sums", direction.sums.keys)
    if direction.offsets is None or direction.partners is None:
        if direction.offsets is not direction.partners:
            _fail(f"{where}: offsets and partners go together, but only one is present")
        return
    _expect_length(f"{where}: offsets", direction.offsets, len(direction.counts) + 1)
    if direction.offsets[0] != 0 or direction.offsets[-1] != len(direction.partners):
        _fail(
            f"{where}: offsets run {direction.offsets[0]}..{direction.offsets[-1]}, expected "
            f"0..{len(direction.partners)}"
        )
    lengths = np.diff(direction.offsets)
    if (lengths < 0).any() or (lengths > direction.counts).any():
        _fail(f"{where}: a probe lists fewer than 0 partners, or more than its count")


def _check_result(result: Result) -> None:
    where = f"result of frame {result.frame_id}"
    _check_range(where, result.begin, result.end)
    _check_produced(where, result.produced_ms, result.produced_runs)
    _expect_length(f"{where}: probes", result.probes, result.rows.num_rows)
    _expect_length(f"{where}: traces", result.traces, result.rows.num_rows)
    if result.probes is not None and (result.probes[1:] < result.probes[:-1]).any():
        _fail(f"{where}: the probes of its rows descend")


def _check_range(where: str, begin: int, end: int) -> None:
    if not 0 <= begin <= end <= TUPLES_MAX:
        _fail(f"{where}: positions [{begin}, {end}) are no range within 0 to {TUPLES_MAX}")


def _check_hot_keys(plan: HotKeys) -> None:
    for (stream, slot), (codes, counts) in plan.hot.items():
        _expect_length(f"plan {plan.version}: counts of stream {stream}, slot {slot}", counts, len(codes))


def _check_worker_count(count: WorkerCount) -> None:
    if count.workers < 1:
        _fail(f"worker count {count.version} has {count.workers} workers, expected at least 1")


def _expect_rising(name: str, values: NDArray[Any]) -> None:
    if (values[1:] <= values[:-1]).any():
        _fail(f"{name} do not rise")


def _expect_below(name: str, values: NDArray[Any], bound: int) -> None:
    if len(values) and int(values.max()) >= bound:
        _fail(f"{name} reach {values.max()}, expected less than {bound}")


_RULES: dict[type[Record], Callable[[Any], None]] = {
    Frame: _check_frame,
    Partial: _check_partial,
    Run: _check_run,
    Batch: _check_batch,
    Part: _check_part,
    Result: _check_result,
    HotKeys: _check_hot_keys,
    WorkerCount: _check_worker_count,
}
