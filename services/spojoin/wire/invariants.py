"""What the fields of a record must be to each other, beyond what their types say of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from spojoin.errors import WireError
from spojoin.wire.records import (
    Batch,
    Block,
    Closing,
    DirectionRanks,
    Frame,
    HotKeys,
    Matches,
    Part,
    Partial,
    Result,
    Run,
    SortedColumn,
    SpreadKey,
    StreamSlice,
    Unjoined,
    WorkerCount,
)

#: Positions and ranks are uint16, so a frame or a batch holds at most this many tuples.
TUPLES_MAX = 1 << 16
#: The most partitions of a query's results.
SINKS_MAX = 1024


class Rule(NamedTuple):
    """What holds of a type of record.

    where: names a record in errors, or continues the name of the surrounding one
    size: how many rows its fields are about; if None, those of the surrounding record
    check: raises WireError unless its fields fit each other; they were checked one by one before
    """

    where: Callable[[Any], str] | None = None
    size: Callable[[Any], int] | None = None
    check: Callable[[str, Any], None] | None = None


def fail(text: str) -> NoReturn:
    raise WireError(text)


def expect_length(where: str, name: str, values: Sized, *allowed: int) -> None:
    if len(values) not in allowed:
        fail(f"{where}: {name} has {len(values)} entries, expected {' or '.join(map(str, allowed))}")


def expect_rising(where: str, name: str, values: NDArray[Any]) -> None:
    if (values[1:] <= values[:-1]).any():
        fail(f"{where}: {name} do not rise")


def expect_ascending(where: str, name: str, values: NDArray[Any]) -> None:
    if (values[1:] < values[:-1]).any():
        fail(f"{where}: {name} do not ascend")


def expect_below(where: str, name: str, values: NDArray[Any], bound: int) -> None:
    if len(values) and int(values.max()) >= bound:
        fail(f"{where}: {name} reach {values.max()}, expected less than {bound}")


def _expect_last_below(where: str, name: str, ascending: NDArray[Any], bound: int) -> None:
    if len(ascending) and ascending[-1] >= bound:
        fail(f"{where}: {name} reach {ascending[-1]}, expected less than {bound}")


def _expect_tuples(name: str, count: int) -> None:
    if not 0 <= count <= TUPLES_MAX:
        fail(f"{name} holds {count} tuples, expected 0 to {TUPLES_MAX}")


def _check_frame(where: str, frame: Frame) -> None:
    _expect_tuples(where, frame.count)
    _check_positions(where, frame)
    if (total := int(frame.produced_runs.sum())) != frame.count:
        fail(f"{where}: produced_runs add up to {total}, expected {frame.count}")
    _expect_tuples(f"{where}: rows that close", frame.answers)
    for closing in frame.closings:
        _expect_last_below(where, "rows that close: after", closing.after, frame.count + 1)
    _check_places(where, frame)
    for key in frame.spread:
        _check_spread_key(where, key, len(frame.slices))


def _check_spread_key(where: str, key: SpreadKey, streams: int) -> None:
    if key.stream >= streams or not 0 <= key.first < key.end:
        fail(f"{where}: spread key {key.code} of stream {key.stream} has indexes [{key.first}, {key.end})")


def _check_places(where: str, frame: Frame) -> None:
    """Check that the closing rows of both sides together take each position exactly once."""
    if len(frame.closings) < 2:
        if any(closing.places is not None for closing in frame.closings):
            fail(f"{where}: positions of all rows that close, expected them where both sides ask")
        return
    expect_length(where, "slices beside rows of two sides that close", frame.slices, 2)
    taken = np.sort(np.concatenate([closing.all_places for closing in frame.closings]))
    if any(closing.places is None for closing in frame.closings) or (taken != np.arange(len(taken))).any():
        fail(f"{where}: rows of two sides close, expected each of their {frame.answers} positions once")


def _check_closing(where: str, closing: Closing) -> None:
    if not np.isin(closing.positions, closing.all_places).all():
        fail(f"{where}: a position that none of them has")


def _check_slice(where: str, part: StreamSlice) -> None:
    if part.batch_first > part.first_index:
        fail(f"{where}: batch_first {part.batch_first} lies after first_index {part.first_index}")


def _check_positions(where: str, frame: Frame) -> None:
    """Check that all positions ascend and are together 0..count-1: each once, or at least once if slices share."""
    parts: list[StreamSlice | Unjoined] = [*frame.slices, *frame.unjoined]
    total = sum(map(len, parts))
    if total < frame.count or (total > frame.count and not frame.is_shared):
        fail(f"{where}: slices hold {total} tuples, expected {frame.count}")
    for part in parts:
        _expect_last_below(where, "positions", part.positions, frame.count)
    if len(parts) > 1:
        _expect_all(where, frame, [part.positions for part in parts])


def _expect_all(where: str, frame: Frame, positions: Iterable[NDArray[np.uint16]]) -> None:
    """Check that no position is missing; the count then excludes duplicates, unless slices share positions."""
    taken = np.zeros(frame.count, np.bool_)
    for part in positions:
        taken[part] = True
    if not taken.all():
        fail(f"{where}: both slices claim one position, and {int((~taken).sum())} are claimed by none")


def _check_block(where: str, block: Block) -> None:
    if block.end < block.first:
        fail(f"{where}: ends at {block.end}, before it begins")
    if len(block) and not block.first_offset <= block.offsets[0] <= block.offsets[-1] <= block.next_offset:
        fail(f"{where}: offsets run {block.offsets[0]}..{block.offsets[-1]}, outside {block.first}..{block.end}")


def _batch_length(run: Run | Batch) -> int:
    return run.end - run.first


def _check_run(where: str, run: Run) -> None:
    _expect_tuples(where, _batch_length(run))


def _check_batch(where: str, batch: Batch) -> None:
    _expect_tuples(where, _batch_length(batch))
    slots = {column.slot for column in batch.columns}
    for pair, ranks in batch.permutations.items():
        if not slots.issuperset(pair):
            fail(f"{where}: a permutation maps slot {pair[0]} to {pair[1]}, but the columns are {sorted(slots)}")
        expect_length(where, f"permutation {pair}", ranks, _batch_length(batch))
        expect_below(where, f"permutation {pair}", ranks, _batch_length(batch))


def _check_matches(where: str, direction: Matches) -> None:
    if direction.sums is not None:
        expect_length(where, "sums", direction.sums, len(direction.counts))
        expect_rising(where, "keys of sums", direction.sums.keys)
    if direction.offsets is None or direction.partners is None:
        if direction.offsets is not direction.partners:
            fail(f"{where}: offsets and partners go together, but only one is present")
        return
    if direction.offsets[0] != 0 or direction.offsets[-1] != len(direction.partners):
        fail(
            f"{where}: offsets run {direction.offsets[0]}..{direction.offsets[-1]}, expected "
            f"0..{len(direction.partners)}"
        )
    lengths = np.diff(direction.offsets)
    if (lengths < 0).any() or (lengths > direction.counts).any():
        fail(f"{where}: a probe lists fewer than 0 partners, or more than its count")


def _check_range(where: str, answer: Part | Result) -> None:
    if not 0 <= answer.begin <= answer.end <= TUPLES_MAX:
        fail(f"{where}: positions [{answer.begin}, {answer.end}) are no range within 0 to {TUPLES_MAX}")


def _check_hot_keys(where: str, plan: HotKeys) -> None:
    for (stream, slot), (codes, counts) in plan.hot.items():
        expect_length(where, f"counts of stream {stream}, slot {slot}", counts, len(codes))


def _check_worker_count(where: str, count: WorkerCount) -> None:
    if count.workers < 1:
        fail(f"{where} has {count.workers} workers, expected at least 1")


RULES: dict[type, Rule] = {
    Frame: Rule(lambda frame: f"frame {frame.frame_id}", check=_check_frame),
    StreamSlice: Rule(size=len, check=_check_slice),
    Closing: Rule(lambda _: ": rows that close", len, _check_closing),
    Unjoined: Rule(lambda _: ": unjoined rows", len),
    Partial: Rule(lambda partial: f"partial of frame {partial.frame_id}, predicate {partial.predicate}"),
    DirectionRanks: Rule(size=lambda ranks: len(ranks.start)),
    Run: Rule(lambda run: f"run of stream {run.stream}, batch {run.batch_id}", _batch_length, _check_run),
    Batch: Rule(lambda batch: f"batch {batch.batch_id} of stream {batch.stream}", _batch_length, _check_batch),
    SortedColumn: Rule(lambda column: f": slot {column.slot}"),
    Part: Rule(lambda part: f"part {part.part} of frame {part.frame_id}", check=_check_range),
    Matches: Rule(size=lambda matches: len(matches.counts), check=_check_matches),
    Result: Rule(lambda result: f"result of frame {result.frame_id}", lambda r: r.rows.num_rows, _check_range),
    Block: Rule(lambda block: f"block of input {block.source} from {block.first} on", len, _check_block),
    WorkerCount: Rule(lambda count: f"worker count {count.version}", check=_check_worker_count),
    HotKeys: Rule(lambda plan: f"plan {plan.version}", check=_check_hot_keys),
}
