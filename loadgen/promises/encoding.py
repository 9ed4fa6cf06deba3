"""The paper's encoding of a mutable joiner's answer, for comparison: one bit per probe and stored tuple (section 4.1).

It is as fast as possible: it compares and packs 64 stored tuples at a time, without branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.bench.measurement import Measurement, best_seconds
from loadgen.promises.data import ABOUT, by_slot, columns, self_join
from loadgen.promises.sizes import Context
from spojoin.arrays import I64, U64
from spojoin.kernels import intervals16
from spojoin.kernels.bounds import bounds
from spojoin.kernels.compile import kernel, popcount

_WORD = 64


def bit_arrays(stored: I64, lo: I64, hi: I64) -> U64:
    """Bit j of row q says whether lo[q] <= stored[j] <= hi[q]: uint64 (m, ceil(n / 64)).

    stored: int64 (n,) codes in arrival order; lo, hi: int64 (m,)
    """
    words = np.zeros((len(lo), -(-len(stored) // _WORD)), np.uint64)
    _pack(stored, lo, hi, words)
    return words


def and_bit_counts(first: U64, second: U64, ends: I64) -> I64:
    """For each probe, the number of stored tuples before ends[q] with both bits: int64 (m,)."""
    counts = np.empty(len(ends), np.int64)
    _count(first, second, ends, counts)
    return counts


@kernel
def _pack(stored: I64, lo: I64, hi: I64, words: U64) -> None:
    n = len(stored)
    whole = n // _WORD
    for q in range(len(lo)):
        least, greatest = lo[q], hi[q]
        row = words[q]
        for w in range(whole):
            begin, word = w * _WORD, np.uint64(0)
            for j in range(_WORD):
                code = stored[begin + j]
                word |= np.uint64((code >= least) & (code <= greatest)) << np.uint64(j)
            row[w] = word
        for j in range(whole * _WORD, n):
            row[whole] |= np.uint64((stored[j] >= least) & (stored[j] <= greatest)) << np.uint64(j - whole * _WORD)


@kernel
def _count(first: U64, second: U64, ends: I64, counts: I64) -> None:
    one = np.uint64(1)
    for q in range(len(ends)):
        whole, rest = ends[q] >> 6, np.uint64(ends[q] & 63)
        total = np.uint64(0)
        for w in range(whole):
            total += popcount(first[q, w] & second[q, w])
        if rest:
            total += popcount(first[q, whole] & second[q, whole] & ((one << rest) - one))
        counts[q] = total


WORKLOAD = "uniform"
#: Stored tuples in the mutable part and probes of a frame: the router's defaults, and smaller frames of a low rate.
SHAPES = ((8_192, 1_024), (8_192, 4_096), (16_384, 4_096))
Intervals = list[tuple[I64, I64, I64]]


def measure(context: Context) -> Iterator[Measurement]:
    """Bytes, and time to encode and to AND, of both encodings, for both predicates of one direction."""
    for stored, probes in SHAPES:
        yield from _compare(stored, probes, context.sizes.repeats)


def _compare(stored: int, probes: int, repeats: int) -> Iterator[Measurement]:
    intervals = _intervals(stored, probes)
    begins, ends = np.zeros(probes, np.int64), np.full(probes, stored)
    ranks = [intervals16.rank_columns(codes, lo, hi, complement=False) for codes, lo, hi in intervals]
    bits = [bit_arrays(codes, lo, hi) for codes, lo, hi in intervals]
    positions, starts, lengths = (list(each) for each in zip(*ranks, strict=True))
    runs: dict[str, Callable[[], Any]] = {
        "encode ranks": lambda: [intervals16.rank_columns(c, lo, hi, complement=False) for c, lo, hi in intervals],
        "encode bit arrays": lambda: [bit_arrays(c, lo, hi) for c, lo, hi in intervals],
        "AND ranks": lambda: intervals16.and_counts(positions, starts, lengths, begins, ends),
        "AND bit arrays": lambda: and_bit_counts(bits[0], bits[1], ends),
    }
    if not np.array_equal(runs["AND ranks"](), runs["AND bit arrays"]()):
        raise AssertionError("the two encodings don't give the same counts")
    sizes = {"ranks": _bytes(array for each in ranks for array in each), "bit arrays": _bytes(bits)}
    shape = f"{probes:,} probes, {stored:,} stored"
    yield from _figures(shape, sizes, best_seconds(runs, repeats), probes)


def _figures(shape: str, sizes: dict[str, int], best: dict[str, float], probes: int) -> Iterator[Measurement]:
    for name, size in sizes.items():
        yield Measurement(f"{shape}: {name}", size, "bytes a frame and role", note="two predicates")
    yield Measurement(f"{shape}: bytes, bit arrays / ranks", sizes["bit arrays"] / sizes["ranks"], "times")
    for name, took in best.items():
        yield Measurement(f"{shape}: {name}", took / probes * 1e6, "us a probe and direction", note=ABOUT[WORKLOAD])
    bits, ranks = (best[f"encode {name}"] + best[f"AND {name}"] for name in ("bit arrays", "ranks"))
    yield Measurement(f"{shape}: time, bit arrays / ranks", bits / ranks, "times", note="encoded and ANDed")


def _intervals(stored: int, probes: int) -> Intervals:
    """Per predicate of the first direction the stored codes and the probes' bounds."""
    query = self_join(stored * 10, stored)
    data = columns(WORKLOAD, stored + probes)
    codes = by_slot(query, data)
    return [
        (codes[p.target_slot][:stored], *bounds(p.op, p.domain, p.width, codes[p.probe_slot][stored:]))
        for p in query.directions[0].predicates
    ]


def _bytes(arrays: Iterable[NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays)
