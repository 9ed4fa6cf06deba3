"""Estimates the bytes that each service holds, from array layouts, without the interpreter's own memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.columns.stream_columns import payload_types
from spojoin.index.composite import keyed_search, searches_by_key
from spojoin.model import ColumnType, Direction, EmitOn, Query, Stream, TypeName
from spojoin.search_plan import SearchPlan

CODE_BYTES = 8
MUTABLE_RANK_BYTES = 2
NODE_OFFSET_BYTES = 4
SEQ_BYTES = 8
KEY_BYTES = 8  # an int64; text keys take their length
TIME_BYTES = 8
HELD_ROOM = 1.2  # the room of buffers of rows, in times of what they hold
OPEN_WORDS = 4  # of an open row besides its codes: its number, first partner, own row of the other side, event time
PREFIX_BITMAP_BYTES = 32  # one kept prefix each 256 ranks, in chunks of at most 65,536 tuples
CHECKED_RANK_BYTES = 4.2  # of a tuple in the order that is read, and its share of the tree over these
WAVELET_LEVEL_BYTES = 0.25  # 32 bits and their count for each 32 tuples
WAVELET_LEAF_LEVELS, WAVELET_LEAF_BYTES = 6, 1  # the last levels are a byte a tuple
WEIGHT_BYTES = 8  # of a tuple and 32 bits of what is summed, by arrival
SUM_BYTES, LEAST_SUM_BYTES = 4, 0.25  # an order's, a level's of half the tuples; 2 or 8 bytes for small or large values
RATING_BYTES = 9  # a code and its kind
ORDER_BYTES = 20  # of a tuple in an order of values: its offset, code and tie
RANK_BYTES = 4
LEAST_BLOCK = 32  # values of a block of which the least is known, and those of runs of blocks

#: What the chart allows a worker; what its process takes without a window; its peak, in times of the index, in merges.
WORKER_BYTES_MAX, WORKER_BYTES_ALONE, MERGING = 2 << 30, 256 << 20, 2


@dataclass(frozen=True, slots=True)
class SetupSizes:
    """How the services are set up, with sizes in tuples or frames. The defaults are the router's.

    workers, columns: the PO-Join workers, and the columns of their grid, which divide the window
    window_tuples: the expected tuples of a time window or a table (a count window has its own number)
    """

    batch_tuples: int = 8_192
    batch_frames: int = 256
    frame_tuples: int = 8_192
    handover_frames: int = 2
    credits_frames: int = 256
    workers: int = 2
    columns: int = 1
    window_tuples: int = 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A service's expected state in bytes, and its parts."""

    service: str
    instances: int
    bytes_each: int
    holds: str


def window_tuples(query: Query, sizes: SetupSizes) -> int:
    """The number of tuples in one stream's window, or in a table."""
    return query.window.rows or sizes.window_tuples


def windows_held(query: Query, number: int) -> int:
    """The most windows of a stream's rows that are held at a time.

    The partners of a row that is answered on close are in two windows of the other side's rows, one before it and one
    after it. Left rows that are answered on arrival aren't held, unless right rows search them. Two versions of a table
    are held while one replaces the other.
    """
    if query.has_table:
        return 2 * number
    if not query.asks:
        return 1
    waits = int(query.answers.emit is EmitOn.CLOSE)
    return waits if number == 0 and not query.both_ask else 1 + waits


def open_bytes(query: Query) -> int:
    """What the router holds for an open row, or for one open row of each side."""
    if query.answers.emit is not EmitOn.CLOSE:
        return 0
    return sum((OPEN_WORDS + len(stream.keys)) * CODE_BYTES for stream in query.streams if stream.asks)


def expected_state(query: Query, sizes: SetupSizes) -> tuple[ServiceState, ...]:
    """The state of every service at a full window."""
    mutable = sizes.batch_tuples + (sizes.handover_frames + 2) * sizes.frame_tuples
    streams = len(query.streams)
    payload_types = SEQ_BYTES + KEY_BYTES + (TIME_BYTES if query.needs_time else 0)
    window = window_tuples(query, sizes)
    is_open = f"; {'rows' if query.both_ask else 'left rows'} that are open"
    return (
        ServiceState(
            "router",
            1,
            _router(query, sizes, window),
            "rows of a frame for each stream, times of a time window"
            + (is_open if query.answers.emit is EmitOn.CLOSE else ""),
        ),
        ServiceState("predictor", 1, 2**20, "ASketch: its filter and sketch; it runs only where columns are by key"),
        ServiceState(
            "mutable joiner",
            len(query.predicates),
            streams * mutable * (CODE_BYTES + MUTABLE_RANK_BYTES + payload_types),
            f"at most {mutable:,} tuples of each stream, sorted, with their ranks",
        ),
        ServiceState(
            "permutation",
            1,
            sum(_batch_bytes(s, sizes.batch_tuples, payload_types) for s in query.streams),
            "open batches",
        ),
        ServiceState(
            "PO-Join worker",
            sizes.workers,
            _worker(query, sizes, window),
            "the window, indexed" if sizes.columns == 1 else f"one of {sizes.columns} columns of the window, indexed",
        ),
        ServiceState(
            "logical AND", 1, _ranks_in_frame(query, sizes, mutable), "the rank arrays of one frame's predicates"
        ),
        ServiceState(
            "sink",
            1,
            _parts_in_frame(query, sizes) + round(window * _held(query)),
            "counts of frames that wait for parts; partners come in pieces"
            + ("; the rows of the windows, which results name" if names_rows(query) else ""),
        ),
    )


def _held(query: Query) -> float:
    return sum(windows_held(query, number) * held_bytes(query, stream) for number, stream in enumerate(query.streams))


def version_bytes(query: Query, sizes: SetupSizes) -> int:
    """What a version of the query's table takes in the log, and also in batches."""
    table = query.streams[-1]
    return round(window_tuples(query, sizes) * (len(table.keys) * CODE_BYTES + KEY_BYTES + payload_bytes(table)))


def held_bytes(query: Query, stream: Stream, sample: pa.Table | None = None) -> float:
    """What the sink holds for a row of a window: its number, its key and its payload."""
    if not names_rows(query):
        return 0
    row = SEQ_BYTES + (KEY_BYTES if query.carries_keys else 0) + payload_bytes(stream, sample)
    return row * HELD_ROOM


def indexed_bytes(query: Query, number: int, sizes: SetupSizes) -> float:
    """What the PO-Join workers together hold for a row of stream `number`'s window."""
    found = [direction for direction in query.directions if direction.target == number]
    return sum(bytes_per_tuple(query, each, _node_tuples(query, sizes)) for each in found[:1])


def _router(query: Query, sizes: SetupSizes, window: int) -> int:
    row = CODE_BYTES * max(len(stream.keys) for stream in query.streams) + KEY_BYTES + TIME_BYTES
    times = TIME_BYTES * window if query.window.needs_time else 0
    return round(len(query.streams) * (sizes.frame_tuples * row * 4 + times) + window * open_bytes(query))


def _batch_bytes(stream: Stream, tuples: int, payload_types: int) -> int:
    return tuples * (len(stream.keys) * (CODE_BYTES + MUTABLE_RANK_BYTES) + payload_types)


def is_cut_short(query: Query, direction: Direction) -> bool:
    """Whether only the first partners that `direction` finds are listed."""
    plan = SearchPlan(query)
    return plan.lists_matches(direction) and plan.part_limit is not None


def bytes_per_tuple(query: Query, direction: Direction, tuples: int) -> float:
    """What a PO-Join worker keeps for a tuple that `direction` searches, in nodes of `tuples`."""
    plan = SearchPlan(query)
    slots, is_cut = {p.target_slot for p in direction.predicates}, is_cut_short(query, direction)
    conditions, ordered, composite = plan.interval_count(direction), len(slots) - query.both_ask, 0
    if searches_by_key(direction) and not is_cut:  # within equal keys only the other conditions are left
        search = keyed_search(direction)
        conditions = len(search.conditions) - query.both_ask
        ordered = len({condition.slot for condition in search.conditions}) - query.both_ask
        composite = len(search.slots) - 1 + ordered
    stored = (len(slots) + composite) * (CODE_BYTES + NODE_OFFSET_BYTES)
    partners = SEQ_BYTES if plan.lists_matches(direction) and not query.is_of_one_input else 0
    levels = max((tuples - 1).bit_length(), 6)
    padding = (1 << levels) / tuples
    wavelet = ((levels - WAVELET_LEAF_LEVELS) * WAVELET_LEVEL_BYTES + WAVELET_LEAF_BYTES) * padding
    counts_three = conditions == 3 and not plan.lists_matches(direction)
    boxes = _boxes_levels(levels - WAVELET_LEAF_LEVELS) * padding if counts_three and ordered == 3 else 0
    bitmaps = conditions * PREFIX_BITMAP_BYTES if (conditions > 2 and not counts_three) or is_cut else 0
    lists_two = plan.lists_matches(direction) and conditions == 2 and not is_cut
    two = ordered == 2 and (conditions == 2 or counts_three) and not lists_two
    answers = _answer_bytes(query, levels, padding, is_pair=two and conditions == 2)
    checked = CHECKED_RANK_BYTES if lists_two and ordered == 2 else 0
    return stored + partners + (wavelet if two else 0) + checked + boxes + bitmaps + answers


def _answer_bytes(query: Query, levels: int, padding: float, *, is_pair: bool) -> float:
    """What sums (of 32-bit values) and choices add to a tuple in nodes of 2**levels with `padding`."""
    plan = SearchPlan(query)
    depth, orders = levels - WAVELET_LEAF_LEVELS, 1 + is_pair
    lefts = (depth / 2 * (SUM_BYTES + LEAST_SUM_BYTES) + SUM_BYTES) * padding if is_pair else 0
    running = WEIGHT_BYTES + (SUM_BYTES + LEAST_SUM_BYTES) * orders
    summed = sum(measure.is_summed for measure in plan.measures) * (running + lefts)
    runs = sum(levels - level - 4 for level in range(depth * is_pair + 1)) / LEAST_BLOCK
    least = RANK_BYTES * (depth * is_pair + 1 + runs) * padding
    each = RATING_BYTES + ORDER_BYTES + RANK_BYTES * orders + least
    return summed + len(plan.choices) * each + (RANK_BYTES if is_pair and plan.choices else 0)


def _boxes_levels(depth: int) -> float:
    """Bytes a tuple of a decomposition of `depth` levels: two paths, and matrices of all the levels below each."""
    levels = 2 * depth + depth * (depth - 1) // 2
    return levels * WAVELET_LEVEL_BYTES + (depth + 1) * WAVELET_LEAF_BYTES


def _worker(query: Query, sizes: SetupSizes, window: int) -> int:
    """A worker's index; a self join searches one window in both directions with one index."""
    directions = query.directions[:1] if query.is_self else query.directions
    node = _node_tuples(query, sizes)
    each = [bytes_per_tuple(query, one, node) * windows_held(query, one.target) for one in directions]
    return round(sum(each) * window / sizes.columns)


def window_tuples_of_column(query: Query, sizes: SetupSizes) -> int:
    """The most tuples of a window that a worker of the chart's size holds of its column."""
    window = window_tuples(query, sizes)
    bytes_a_tuple = _worker(query, replace(sizes, columns=1), window) / window
    return int((WORKER_BYTES_MAX - WORKER_BYTES_ALONE) / (MERGING * bytes_a_tuple))


def _node_tuples(query: Query, sizes: SetupSizes) -> int:
    """The tuples of a node of the index: those of a slide, but at least a batch and at most the window."""
    window = window_tuples(query, sizes)
    return min(max(query.window.rows_a_slide or 0, sizes.batch_tuples), window)


def _ranks_in_frame(query: Query, sizes: SetupSizes, mutable: int) -> int:
    return len(query.predicates) * 2 * MUTABLE_RANK_BYTES * (mutable + 2 * sizes.frame_tuples)


def _parts_in_frame(query: Query, sizes: SetupSizes) -> int:
    return sizes.credits_frames * sizes.frame_tuples * 2 * CODE_BYTES * (1 + sizes.columns)


#: The assumed length of a text, a byte string or a row's headers if no sample shows it.
TEXT_MEAN_BYTES = 16
OFFSET_BYTES = 8
UUID_BYTES = 36  # as text
_FIXED = {
    TypeName.INT: 4,
    TypeName.LONG: 8,
    TypeName.FLOAT: 4,
    TypeName.DOUBLE: 8,
    TypeName.DECIMAL: 16,
    TypeName.DATE: 4,
    TypeName.TIMESTAMP: 8,
    TypeName.BOOLEAN: 1,
}


@dataclass(frozen=True, slots=True)
class PayloadColumn:
    """A column that travels with a stream's rows, and its mean bytes a row.

    source: "exact" for types of fixed width, otherwise "measured" on a sample or "assumed"
    """

    name: str
    type: ColumnType
    bytes_row: float
    source: str


def payload_columns(stream: Stream, sample: pa.Table | None = None) -> tuple[PayloadColumn, ...]:
    """The payload of a stream's rows; a column with NULLs takes one more byte a row."""
    return tuple(_column(name, kind, sample) for name, kind in payload_types(stream).items())


def payload_bytes(stream: Stream, sample: pa.Table | None = None) -> float:
    """The payload of one row, in bytes."""
    return sum(column.bytes_row for column in payload_columns(stream, sample))


def _column(name: str, kind: ColumnType, sample: pa.Table | None) -> PayloadColumn:
    if kind.name in _FIXED:
        return PayloadColumn(name, kind, _FIXED[kind.name], "exact")
    if kind.name is TypeName.UUID:
        return PayloadColumn(name, kind, OFFSET_BYTES + UUID_BYTES, "exact")
    if sample is not None and name in sample.column_names and sample.num_rows and kind.name is not TypeName.MAP:
        values = sample.column(name)
        length = values.nbytes / len(values) if kind.name is TypeName.CARRIED else _mean_length(values)
        return PayloadColumn(name, kind, OFFSET_BYTES + length, "measured")
    return PayloadColumn(name, kind, OFFSET_BYTES + TEXT_MEAN_BYTES, "assumed")


def _mean_length(values: pa.ChunkedArray) -> float:
    texts = values.cast(pa.string()) if not pa.types.is_binary(values.type) else values
    return float(pc.sum(pc.binary_length(texts)).as_py() or 0) / len(values)


def names_rows(query: Query) -> bool:
    """Whether the sink holds the rows of the windows, because results or conditions on pairs name them."""
    return query.carries_keys or SearchPlan(query).has_pair_payload
