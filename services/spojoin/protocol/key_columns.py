"""Columns by key (rule P21): which column holds a tuple, and which columns a probe is asked of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spojoin.arrays import I64, Flags
from spojoin.errors import ConfigurationError
from spojoin.model import Op, Predicate, Query
from spojoin.protocol.grid import Share
from spojoin.wire.records import SpreadKey

#: An odd multiplier of multiply-shift hashing (Dietzfelbinger et al. 1997): 2**64 divided by the golden ratio. It is
#: part of the protocol: all workers of a row must place a tuple alike.
MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
SHIFT = np.uint64(32)
#: Up to this many keys, a comparison with each takes less time than sorting.
FEW_KEYS = 16
#: The share of a column's tuples from which on a key is hot: a smaller key hardly burdens a column, while each hot
#: key's probes cost every column a search.
HOT_SHARE_OF_COLUMN = 1 / 4


#: The value of the setting `columns_by` with which columns are by key.
BY_KEY = "key"


class KeySlots(NamedTuple):
    """The slots of a key: of the tuples that a stream's index holds, and of the probes that search it."""

    stored: int
    probes: int


def key_slots(query: Query) -> dict[int, KeySlots]:  # P21.1
    """The slots of the key by searched stream; none if columns can't be by key."""
    number = key_predicate(query)
    return {} if number is None else {stream: each.pop() for stream, each in _slots_by_stream(query, number).items()}


def key_predicate(query: Query) -> int | None:
    """The number of the predicate that gives the key: the first equality of the same two slots in every direction.

    A pair's codes are equal there, so a probe's key names the column of every tuple that it may find.
    """
    if not query.layout.has_mutable_part:
        return None
    for number, predicate in enumerate(query.predicates):
        if _names_key(query, predicate) and all(len(each) == 1 for each in _slots_by_stream(query, number).values()):
            return number
    return None


def _slots_by_stream(query: Query, predicate: int) -> dict[int, set[KeySlots]]:
    """The slots that a predicate compares, by searched stream, in each direction that searches it."""
    found: dict[int, set[KeySlots]] = {}
    for direction in query.directions:
        seen = direction.predicates[predicate]
        found.setdefault(direction.target, set()).add(KeySlots(seen.target_slot, seen.probe_slot))
    return found


def hot_share(columns: int) -> float:
    """The share of a stream's tuples from which on a key is hot."""
    return HOT_SHARE_OF_COLUMN / columns


def _names_key(query: Query, predicate: Predicate) -> bool:
    """Whether a predicate is an equality of values, rather than of the marks of void rows."""
    return predicate.op is Op.EQ and not query.streams[0].keys[predicate.left_slot].marks_void


def without_key(query: Query) -> str:
    """Why columns can't be by key, as a clause; for queries of which `key_slots` finds none."""
    if not query.layout.has_mutable_part:
        return f"layout {query.layout.name} has no columns"
    if any(_names_key(query, predicate) for predicate in query.predicates):
        return "its equalities compare different columns of one stream with itself"
    return "its condition has no equality of two columns"


def check_key(query: Query, columns_by: str) -> None:
    """Raise ConfigurationError if columns are to be by key, and the query has none."""
    if columns_by == BY_KEY and not key_slots(query):
        raise ConfigurationError(f"setting columns_by is {BY_KEY}, but {without_key(query)}: set it to batch")


def column_of(codes: I64, columns: int) -> I64:  # P21.2
    """The column of each key, int64 (n,)."""
    mixed = (codes.astype(np.uint64) * MULTIPLIER) >> SHIFT  # 32 bits
    return ((mixed * np.uint64(columns)) >> SHIFT).astype(np.int64)


def is_held(codes: I64, order: I64, first: int, share: Share, spread: Sequence[SpreadKey]) -> Flags:  # P21.3
    """Which tuples of a batch a column holds, (n,) by offset: those of its keys, and every n-th of a spread key's.

    codes, order: the batch's column of the key, codes ascending, and the offset of each; first: the first tuple's index
    spread: the stream's spread keys
    """
    held = np.empty(len(codes), np.bool_)
    held[order] = column_of(codes, share.columns) == share.column
    for key in spread:
        begin, end = (int(np.searchsorted(codes, key.code, side)) for side in ("left", "right"))
        offsets = order[begin:end]
        indexes = offsets + first
        in_turn = (indexes >= key.first) & (indexes < key.end)
        held[offsets[in_turn]] = indexes[in_turn] % share.columns == share.column
    return held


def is_asked(codes: I64, share: Share, spread: Flags) -> Flags:  # P21.4
    """Which probes a column is asked of, (m,): those of its keys, and those of spread keys (`is_spread`)."""
    asked: Flags = column_of(codes, share.columns) == share.column
    return asked | spread


def is_spread(codes: I64, spread: Sequence[SpreadKey]) -> Flags:
    """Which probes have a spread key of the stream, (m,)."""
    if len(spread) > FEW_KEYS:
        return np.isin(codes, [key.code for key in spread])
    found = np.zeros(len(codes), np.bool_)
    for key in spread:
        found |= codes == key.code
    return found
