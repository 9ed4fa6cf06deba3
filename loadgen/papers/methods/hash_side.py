"""The hash join, for queries with an equality; stream engines use it if they can.

SPO-Join (EDBT 2025), section 5.4, figures 22 and 23, compares with it on equalities. There is one table for each column
that the first equality of a direction tests: open addressing with linear probing from a code to the chain of its
tuples, in order of arrival. The other checks are verified on the tuples of the chain.

The paper leaves some points open. Expiry: chains are in order of arrival, so the expired tuple is the first of its
chain; an empty chain frees its slot, and the slots after it move back, so no tombstones pile up. A query without an
equality is refused. With a single equality a count is the chain's length, and no chain is followed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.side import Check, FlatChecks, Found, Hits, Searches, Side, SideSpec, flat
from spojoin.arrays import I64
from spojoin.errors import ConfigurationError
from spojoin.kernels.compile import inlined, kernel

Checks = tuple[I64, I64, NDArray[np.bool_]]
#: slots int64 (tables, 2**k, 4); at i mod 2**k of tuple i: links int64 (tables, 2**k), the next of its chain, and codes
#: int64 (columns, 2**k)
Tables = tuple[I64, I64, I64]

#: Places in a slot: the code, its first and last tuple, their number; a slot without tuples is free.
CODE, FIRST, LAST, COUNT = 0, 1, 2, 3
#: Places in a side's state: the next index to insert, the oldest not deleted, the next probe.
STORED, OLDEST, PROBE = 0, 1, 2

_SLOTS_FIRST = 256
#: 2**64 over the golden ratio: the product's high bits are well mixed.
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)


class Hash(Side):
    """Chains of tuples with equal codes. Raises ConfigurationError if a direction has no equality."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        first = [_first_equality(direction) for direction in spec.directions]
        self._checks = FlatChecks(spec)
        #: the stored column of each table
        self._columns = np.array(
            sorted({direction[k].column for direction, k in zip(spec.directions, first, strict=True)}), np.int64
        )
        tables = [
            int(np.searchsorted(self._columns, direction[k].column))
            for direction, k in zip(spec.directions, first, strict=True)
        ]
        #: each direction's table, and the place of its equality among all checks
        self._entries = np.array([tables, self._checks.starts[:-1] + first], np.int64)
        self._tables = self._empty(_SLOTS_FIRST)
        self._end = 0
        self._state = np.zeros(3, np.int64)
        self._comparisons = np.zeros(1, np.int64)

    def _empty(self, slots: int) -> Tables:
        tables = len(self._columns)
        links, codes = np.empty((tables, slots), np.int64), np.empty((self.spec.columns, slots), np.int64)
        return np.zeros((tables, slots, 4), np.int64), links, codes

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Insert, delete and search in the order of arrival, in one kernel."""
        self._append(stored)
        hits = Hits(self._checks.directions, len(upper), self.spec.lists)
        self._run(flat(directions), np.ascontiguousarray(lower), upper.copy(), hits)
        self.counters.comparisons = int(self._comparisons[0])
        return hits.found(ascending=True)

    def _append(self, stored: I64) -> None:
        self._make_room(self.tuples + stored.shape[1])
        codes = self._tables[2]
        codes[:, np.arange(self._end, self._end + stored.shape[1]) & (codes.shape[1] - 1)] = stored
        self._end += stored.shape[1]

    def _make_room(self, tuples: int) -> None:
        """Keep at least half of the slots free: with more tuples, insert all of them again."""
        old = self._tables[2]
        if 2 * tuples <= old.shape[1]:
            return
        self._tables = self._empty(1 << (2 * tuples).bit_length())
        held, codes = np.arange(self._state[OLDEST], self._end), self._tables[2]
        codes[:, held & (codes.shape[1] - 1)] = old[:, held & (old.shape[1] - 1)]
        self._state[STORED] = self._state[OLDEST]
        self.counters.merges += 1

    def _run(self, searches: tuple[I64, I64], lower: I64, upper: I64, hits: Hits) -> None:
        tuples = int((upper - lower).max()) if len(upper) else 0
        self._state[PROBE] = 0
        while not run(
            self._tables,
            self._columns,
            self._entries,
            self._end,
            self._state,
            self._checks.arrays,
            searches,
            (lower, upper),
            (hits.counts, hits.partners, hits.used),
            self._comparisons,
        ):
            hits.grow(tuples)

    @property
    def nbytes(self) -> int:
        """Bytes of slots, links and codes, free ones included."""
        return sum(part.nbytes for part in self._tables)

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return self._end - int(self._state[OLDEST])


def _first_equality(direction: Sequence[Check]) -> int:
    for k, check in enumerate(direction):
        if check.equality and not check.negated:
            return k
    raise ConfigurationError(
        f"method hash searches by an equality, and none of the query's conditions is one "
        f"({', '.join(check.text or '?' for check in direction)}): "
        f"add one such as l.a = r.a, or choose another method"
    )


@inlined
def _home(code: int, bits: int) -> np.uint64:
    return (np.uint64(code) * _GOLDEN) >> np.uint64(64 - bits)


@inlined
def _find(slots: I64, code: int, bits: int, comparisons: I64) -> np.uint64:
    """The slot of a code, or the free one where it belongs."""
    slot, mask = _home(code, bits), np.uint64(len(slots) - 1)
    while slots[slot, COUNT] > 0 and slots[slot, CODE] != code:
        slot = (slot + np.uint64(1)) & mask
        comparisons[0] += 1
    comparisons[0] += 1
    return slot


@inlined
def _add(slots: I64, links: I64, code: int, index: int, bits: int, comparisons: I64) -> None:
    slot = _find(slots, code, bits, comparisons)
    if slots[slot, COUNT] == 0:
        slots[slot, CODE], slots[slot, FIRST] = code, index
    else:
        links[slots[slot, LAST] & (len(links) - 1)] = index
    slots[slot, LAST] = index
    slots[slot, COUNT] += 1


@inlined
def _drop_first(slots: I64, links: I64, code: int, bits: int, comparisons: I64) -> None:
    """Remove the oldest tuple of a code, which is there."""
    slot = _find(slots, code, bits, comparisons)
    slots[slot, COUNT] -= 1
    if slots[slot, COUNT] > 0:
        slots[slot, FIRST] = links[slots[slot, FIRST] & (len(links) - 1)]
        return
    hole, mask = slot, np.uint64(len(slots) - 1)
    at = (slot + np.uint64(1)) & mask
    while slots[at, COUNT] > 0:
        # It may move nearer to its home slot, unless the hole lies before that.
        if (at - _home(slots[at, CODE], bits)) & mask >= (at - hole) & mask:
            for part in range(4):
                slots[hole, part] = slots[at, part]
            slots[at, COUNT] = 0
            hole = at
        at = (at + np.uint64(1)) & mask


@inlined
def _passes(codes: I64, checks: Checks, begin: int, end: int, equality: int, lo: I64, hi: I64, i: int, at: int) -> bool:
    """Whether a stored tuple of the chain passes the other checks of a direction."""
    _, columns, negated = checks
    for t in range(begin, end):
        code = codes[columns[t], at]
        if t != equality and (lo[t, i] <= code <= hi[t, i]) == negated[t]:
            return False
    return True


@inlined
def _store(tables: Tables, columns: I64, until: int, bits: int, state: I64, comparisons: I64) -> None:
    slots, links, codes = tables
    for index in range(state[STORED], until):
        for table in range(len(columns)):
            code = codes[columns[table], index & (codes.shape[1] - 1)]
            _add(slots[table], links[table], code, index, bits, comparisons)
    state[STORED] = max(state[STORED], until)


@inlined
def _expire(tables: Tables, columns: I64, until: int, bits: int, state: I64, comparisons: I64) -> None:
    slots, links, codes = tables
    for index in range(state[OLDEST], until):
        for table in range(len(columns)):
            code = codes[columns[table], index & (codes.shape[1] - 1)]
            _drop_first(slots[table], links[table], code, bits, comparisons)
    state[OLDEST] = max(state[OLDEST], until)


@inlined
def _search(
    chain: Tables,
    checks: Checks,
    searches: tuple[I64, I64],
    direction: int,
    equality: int,
    i: int,
    bits: int,
    out: I64,
    at: int,
    comparisons: I64,
) -> int:
    """The number of a chain's tuples that a probe finds; they go to `out` from `at` on, if they fit."""
    slots, links, codes = chain
    lo, hi = searches
    begin, end, mask = checks[0][direction], checks[0][direction + 1], codes.shape[1] - 1
    if lo[equality, i] > hi[equality, i]:
        return 0
    slot = _find(slots, lo[equality, i], bits, comparisons)
    size, index, count = slots[slot, COUNT], slots[slot, FIRST], 0
    if end - begin == 1 and len(out) == 0:
        return int(size)
    comparisons[0] += size * (end - begin - 1)
    for _ in range(size):
        if _passes(codes, checks, begin, end, equality, lo, hi, i, index & mask):
            if len(out):
                out[at + count] = index
            count += 1
        index = links[index & mask]
    return count


@kernel
def run(
    tables: Tables,
    table_columns: I64,
    entries: I64,
    until: int,
    state: I64,
    checks: Checks,
    searches: tuple[I64, I64],
    bounds: tuple[I64, I64],
    hits: tuple[I64, I64, I64],
    comparisons: I64,
) -> bool:
    """Insert, delete and search tuple by tuple from where `state` says; False if more room is needed first.

    table_columns: the stored column of each table; entries int64 (2, directions): a direction's table, its equality
    among all checks; until: one past the last tuple to insert
    """
    slots, links, codes = tables
    lower, upper = bounds
    counts, partners, used = hits
    bits = 0
    while (1 << bits) < codes.shape[1]:
        bits += 1
    for i in range(state[PROBE], len(lower)):
        state[PROBE] = i
        _store(tables, table_columns, upper[i], bits, state, comparisons)
        _expire(tables, table_columns, lower[i], bits, state, comparisons)
        if partners.shape[1] and used.max() + upper[i] - lower[i] > partners.shape[1]:
            return False
        for direction in range(entries.shape[1]):
            table, out = entries[0, direction], partners[direction]
            chain = slots[table], links[table], codes
            count = _search(
                chain, checks, searches, direction, entries[1, direction], i, bits, out, used[direction], comparisons
            )
            counts[direction, i] = count
            used[direction] += count
    state[PROBE] = len(lower)
    _store(tables, table_columns, until, bits, state, comparisons)
    return True
