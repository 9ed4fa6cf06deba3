"""A search of a tree as kernels see it: all probes of a direction, and which of its tests the tree answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.errors import ConfigurationError
from spojoin.kernels.compile import inlined, kernel
from spojoin.published.methods.side import I64, Check, Searches
from spojoin.published.methods.tally import COMPARISONS

LEAST = np.iinfo(np.int64).min
GREATEST = np.iinfo(np.int64).max
#: Candidates compared at a time: their flags, and a column of them, stay in the first-level cache.
BLOCK = 2_048
#: The value of `skip` where all tests are compared.
NO_TEST = -1


class Ask(NamedTuple):
    """m probes of one direction with its tests.

    columns, negated: the tests; chosen: the test that the tree answers; lo, hi: int64 (tests, m)
    lower, upper: int64 (m,), each probe reaches the indexes [lower, upper)
    """

    columns: I64
    negated: NDArray[np.bool_]
    chosen: int
    lo: I64
    hi: I64
    lower: I64
    upper: I64


class Destination(NamedTuple):
    """Where results go.

    cursors: int64 (m,), advanced by every partner; partners: filled at the cursors, or empty to count alone
    tally: int64 (WORK,), the work done
    """

    cursors: I64
    partners: I64
    tally: I64


def asked(tests: Sequence[Check], chosen: int, searches: Searches, lower: I64, upper: I64) -> Ask:
    """The probes of a direction as contiguous arrays."""
    columns = np.array([test.column for test in tests], np.int64)
    negated = np.array([test.negated for test in tests], np.bool_)
    whole = np.ascontiguousarray
    return Ask(columns, negated, chosen, whole(searches.lo), whole(searches.hi), whole(lower), whole(upper))


def chosen_test(tests: Sequence[Check], predicate: int) -> int:
    """The place of the predicate that the option names, which counts from 1. Raises ConfigurationError."""
    if predicate > len(tests):
        raise ConfigurationError(
            f"method option predicate is {predicate}; expected 1 to {len(tests)}, the query's predicates"
        )
    return predicate - 1


@inlined
def reach(ask: Ask, probe: int, part: int) -> tuple[int, int]:
    """The codes [low, high] that pass the chosen test: part 0, and part 1 beyond the gap of a negated test.

    low > high if there are none.
    """
    low, high = ask.lo[ask.chosen, probe], ask.hi[ask.chosen, probe]
    if not ask.negated[ask.chosen]:
        return (low, high) if part == 0 else (GREATEST, LEAST)
    if low > high:
        return (LEAST, GREATEST) if part == 0 else (GREATEST, LEAST)
    if part == 0:
        return (LEAST, low - 1) if low > LEAST else (GREATEST, LEAST)
    return (high + 1, GREATEST) if high < GREATEST else (GREATEST, LEAST)


@inlined
def passes(ask: Ask, codes: I64, at: int, probe: int) -> bool:
    """Whether the tuple at a place of `codes` passes all tests but the chosen one."""
    for test in range(len(ask.columns)):
        if test != ask.chosen:
            code = codes[ask.columns[test], at]
            if ((code >= ask.lo[test, probe]) & (code <= ask.hi[test, probe])) == ask.negated[test]:
                return False
    return True


@inlined
def other_test(ask: Ask, probe: int) -> tuple[int, np.int64, np.uint64, np.bool_]:
    """The test not chosen, of two, as (column, lo, hi - lo, negated); with one test, one that every code passes."""
    test = len(ask.columns) - 1 - ask.chosen
    column, low, high, flip = ask.columns[test], ask.lo[test, probe], ask.hi[test, probe], ask.negated[test]
    if len(ask.columns) == 1:
        return column, np.int64(0), np.uint64(2**64 - 1), np.bool_(False)
    if low > high:
        return column, np.int64(0), np.uint64(2**64 - 1), np.bool_(not flip)
    return column, low, np.uint64(high - low), flip


@inlined
def compare(ask: Ask, codes: I64, skip: int, probe: int, begin: int, count: int, flags: NDArray[np.bool_]) -> None:
    """Clear the flags of those among `count` tuples, from place `begin` on, that fail a test other than `skip`."""
    for test in range(len(ask.columns)):
        if test != skip:
            # Slices, since an index that might be negative prevents vector instructions.
            those, whether = codes[ask.columns[test]][begin : begin + count], flags[:count]
            low, high, flip = ask.lo[test, probe], ask.hi[test, probe], ask.negated[test]
            for j in range(len(those)):
                whether[j] &= ((those[j] >= low) & (those[j] <= high)) ^ flip


@kernel
def search_tail(codes: I64, origin: int, edge: int, ask: Ask, begin: int, end: int, answer: Destination) -> None:
    """Compare the tuples from index `edge` on, which no tree holds yet, with the probes [begin, end)."""
    flags = np.empty(BLOCK, np.bool_)
    for probe in range(begin, end):
        cursor = answer.cursors[probe]
        first, last = max(ask.lower[probe], edge), ask.upper[probe]
        answer.tally[COMPARISONS] += max(last - first, 0) * len(ask.columns)
        for at in range(first, last, BLOCK):
            count = min(BLOCK, last - at)
            flags[:count] = True
            compare(ask, codes, NO_TEST, probe, at - origin, count, flags)
            for j in range(count):
                if flags[j]:
                    if len(answer.partners):
                        answer.partners[cursor] = at + j
                    cursor += 1
        answer.cursors[probe] = cursor


@kernel
def sort_each(offsets: I64, partners: I64, lower: I64, upper: I64) -> None:
    """Sort each probe's partners; many among few indexes by marks, in linear time."""
    marks = np.zeros(0, np.bool_)
    for probe in range(len(lower)):
        own = partners[offsets[probe] : offsets[probe + 1]]
        span = upper[probe] - lower[probe]
        if len(own) * 16 < span:
            own.sort()
            continue
        if len(marks) < span:
            marks = np.zeros(2 * span, np.bool_)
        for index in own:
            marks[index - lower[probe]] = True
        k = 0
        for i in range(span):
            if marks[i]:
                own[k] = lower[probe] + i
                k += 1
                marks[i] = False
