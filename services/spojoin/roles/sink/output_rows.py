"""Final rows as Arrow record batches, in the order that the output's form defines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.pairs import interleave, interleave_sides
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import probe_range
from spojoin.roles.sink.column_store import held_in, int64_column
from spojoin.roles.sink.history import History
from spojoin.wire.columns import concat_keys
from spojoin.wire.records import Frame, Matches, StreamSlice, Unjoined

#: The numbers in a row of counts; in a self join, a probe has matches on both sides.
COUNTED = ("seq", "matches")
COUNTED_OF_ONE = (*COUNTED, "as_left", "as_right")
#: Positions in a frame have 16 bits.
FRAME_MAX = 1 << 16


def count_rows(query: Query, frame: Frame, begin: int, end: int, directions: list[Matches]) -> pa.RecordBatch:
    """One row for each probe: seq, stream, key, matches and, for a self join, as_left and as_right."""
    names = COUNTED_OF_ONE if query.is_of_one_input else COUNTED
    values = np.empty((len(names), end - begin), np.int64)
    values[0] = _seqs(frame, begin, end)
    if query.is_of_one_input:
        for number in range(2):
            values[2 + number] = _spread_counts(query, frame, begin, end, number, directions[number].counts)
        np.add(values[2], values[3], out=values[1])
    else:
        values[1] = _by_position(query, frame, begin, end, [r.counts for r in directions])
    seq, *counted = held_in(values)
    columns = [seq, _stream_names(query, frame, begin, end), _keys(query, frame, begin, end), *counted]
    return pa.RecordBatch.from_arrays(columns, names=[names[0], "stream", "key", *names[1:]])


def pair_rows(
    query: Query, frame: Frame, begin: int, end: int, directions: list[Matches], histories: Sequence[History]
) -> pa.RecordBatch:
    """One row for each pair, sorted by (probe_seq, left_seq, right_seq).

    With a limit, the column `cut` is true if the row's probe has more partners than are listed.
    """
    made: list[pa.Array] = []

    def column(n: int) -> I64:
        values, array = int64_column(n)
        made.append(array)
        return values

    left, right = (_spread(query, frame, begin, end, number, directions[number]) for number in range(2))
    probe_seq, left_seq, right_seq = interleave(
        _segments(right), _segments(left), query.results.limit, frame.first_seq + begin, column
    )
    columns = {
        **dict(zip(("probe_seq", "left_seq", "right_seq"), made, strict=True)),
        "left_key": histories[0].keys(left_seq),
        "right_key": histories[-1].keys(right_seq),
    }
    if query.results.limit is not None:
        totals = _by_position(query, frame, begin, end, [direction.counts for direction in directions])
        columns["cut"] = pa.array((totals > query.results.limit)[probe_seq - frame.first_seq - begin])
    return pa.record_batch(columns)


def listed_pairs(query: Query, frame: Frame, begin: int, end: int, directions: list[Matches]) -> tuple[I64, I64]:
    """The seqs of each pair's left and right row, int64 (n,), sorted by probe (the greater seq), then left, then right.

    The arrays use Arrow's memory.
    """
    left, right = (_spread(query, frame, begin, end, number, directions[number]) for number in range(2))
    return interleave_sides(
        _segments(right),
        _segments(left),
        query.results.limit,
        frame.first_seq + begin,
        lambda n: int64_column(n)[0],
    )


def bitmap_rows(query: Query, frame: Frame, begin: int, end: int, directions: list[Matches]) -> pa.RecordBatch:
    """One row for each probe: seq, and each direction's partners as serialised 64-bit Roaring bitmaps of seqs."""
    left, right = (_spread(query, frame, begin, end, number, directions[number]) for number in range(2))
    return pa.record_batch(
        {
            "seq": pa.array(_seqs(frame, begin, end)),
            "as_left": pa.array(_bitmaps(left), pa.binary()),
            "as_right": pa.array(_bitmaps(right), pa.binary()),
        }
    )


def answered_only(rows: pa.RecordBatch, frame: Frame) -> pa.RecordBatch:
    """The rows of probes that no earlier generation has answered (rule P12)."""
    if not len(frame.silent):
        return rows
    seqs = rows.column(0).to_numpy()
    return rows.filter(pa.array(frame.silent[seqs - frame.first_seq] == 0))


def matches(query: Query, directions: list[Matches], frame: Frame, begin: int, end: int) -> int:
    """How many partners all answered probes have, listed or not."""
    if not len(frame.silent):
        return sum([int(direction.counts.sum()) for direction in directions])
    totals = _by_position(query, frame, begin, end, [direction.counts for direction in directions])
    return int(totals[frame.silent[begin:end] == 0].sum())


def cut_probes(query: Query, directions: list[Matches], frame: Frame, begin: int, end: int) -> int:
    """How many probes have more partners than the limit lists."""
    if query.results.limit is None:
        return 0
    totals = _by_position(query, frame, begin, end, [r.counts for r in directions])
    are_cut = totals > query.results.limit
    if len(frame.silent):
        are_cut &= frame.silent[begin:end] == 0
    return int(np.count_nonzero(are_cut))


def _bitmaps(matches: Matches) -> list[bytes]:
    from pyroaring import BitMap64  # noqa: PLC0415  (only this output needs it)

    offsets, partners = _segments(matches)
    return [BitMap64(partners[offsets[q] : offsets[q + 1]]).serialize() for q in range(len(offsets) - 1)]


def _segments(matches: Matches) -> tuple[I64, I64]:
    if matches.offsets is None or matches.partners is None:
        raise ValueError("matches without partners where the query asks for them")
    return matches.offsets, matches.partners


def _spread(query: Query, frame: Frame, begin: int, end: int, number: int, matches: Matches) -> Matches:
    """A direction's matches with one entry for each frame position; in a cross join, only one stream has entries."""
    if query.is_self and not frame.unjoined:
        return matches
    if matches.offsets is None:
        return Matches(_spread_counts(query, frame, begin, end, number, matches.counts))
    direction = query.directions[number]
    positions = frame.slices[direction.probe].positions
    first, last = probe_range(positions, begin, end)
    own = positions[first:last].astype(np.int64) - begin
    counts, lengths = np.zeros(end - begin, np.int64), np.zeros(end - begin + 1, np.int64)
    counts[own] = matches.counts
    lengths[own + 1] = np.diff(matches.offsets)
    return Matches(counts, np.cumsum(lengths), matches.partners)


def _by_position(query: Query, frame: Frame, begin: int, end: int, counts: list[I64]) -> I64:
    first, second = (_spread_counts(query, frame, begin, end, number, own) for number, own in enumerate(counts))
    return first + second


def _spread_counts(query: Query, frame: Frame, begin: int, end: int, number: int, counts: I64) -> I64:
    """A direction's counts with one entry for each frame position."""
    if query.is_self and not frame.unjoined:
        return counts
    positions = frame.slices[query.directions[number].probe].positions
    first, last = probe_range(positions, begin, end)
    result = np.zeros(end - begin, np.int64)
    result[positions[first:last].astype(np.int64) - begin] = counts
    return result


def _seqs(frame: Frame, begin: int, end: int) -> I64:
    return np.arange(frame.first_seq + begin, frame.first_seq + end, dtype=np.int64)


def _stream_names(query: Query, frame: Frame, begin: int, end: int) -> pa.Array:
    if query.is_of_one_input:
        return _only_name(query.inputs[0].name).slice(begin, end - begin)
    which = np.zeros(frame.count, np.int8)
    for number, piece in enumerate(frame.slices):
        which[piece.positions] = number
    for rows in frame.unjoined:
        which[rows.positions] = rows.input
    return _named(which[begin:end], [source.name for source in query.inputs])


@cache
def _only_name(name: str) -> pa.Array:
    """The name of the only input, repeated for each row of the largest frame."""
    return _named(np.zeros(FRAME_MAX, np.int8), [name])


def _named(which: NDArray[np.int8], names: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(which), pa.array(names), safe=False)


def _keys(query: Query, frame: Frame, begin: int, end: int) -> pa.Array:
    pieces: list[StreamSlice | Unjoined] = [*frame.slices, *frame.unjoined]
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:
        return (filled or frame.slices)[0].keys.slice(begin, end - begin)
    keys = concat_keys([piece.keys for piece in filled])
    places = np.empty(frame.count, np.int64)  # a row that is in two slices has the same key in both
    places[np.concatenate([piece.positions for piece in filled])] = np.arange(len(keys))
    return keys.take(pa.array(places[begin:end]))
