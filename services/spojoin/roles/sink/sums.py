"""Sums of integers and decimals in 128 bits, and what is made of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.errors import BadData
from spojoin.kernels.exact_sums import means_of_integers, sums_of_doubles
from spojoin.measures.numbers import Flags
from spojoin.wire.records import I64

U64 = NDArray[np.uint64]

_SUM_MAX = 10**38


def check_size(text: str, sums: tuple[U64, I64], beyond: NDArray[np.bool_], seqs: I64) -> None:
    """BadData where a sum, given in halves, (n,) each, has more than 38 digits.

    text: of the aggregate; beyond: (n,), which took more than 128 bits; seqs: int64 (n,), of the left rows
    """
    low, high = sums
    large = np.flatnonzero(np.abs(high.astype(np.float64)) >= _SUM_MAX / 2**64 / 2)
    for q in np.union1d(large, np.flatnonzero(beyond)).tolist():
        if beyond[q] or abs((int(high[q]) << 64) + int(low[q])) >= _SUM_MAX:
            raise BadData(f"{text} of the left row with seq {seqs[q]} has more than 38 digits")


def decimals(sums: tuple[U64, I64], counts: I64, kind: pa.DataType) -> pa.Array:
    """Sums as decimals, NULL where nothing was summed; counts: int64 (n,), of the values."""
    low, high = sums
    bits = np.stack([low.view(np.int64), high], axis=1)
    valid = pa.array(counts > 0).buffers()[1]
    return pa.Array.from_buffers(kind, len(counts), [valid, pa.py_buffer(bits)])


def means(sums: tuple[U64, I64], counts: I64, summed: pa.DataType) -> pa.Array:
    """Sums over their counts, each rounded once, NULL where nothing was summed; summed: the type of the values."""
    scale = summed.scale if pa.types.is_decimal(summed) else 0
    found = np.empty(len(counts))
    means_of_integers(*sums, counts, np.uint64(10**scale), found)
    return pa.array(found, mask=counts == 0)


def sums_or_means(
    values: NDArray[np.float64], counted: Flags, offsets: I64, *, is_mean: bool
) -> tuple[NDArray[np.float64], I64]:
    """By left row the exact sum, or mean, of its counted doubles, rounded once, and how many there are."""
    found, counts = np.empty(len(offsets) - 1), np.empty(len(offsets) - 1, np.int64)
    sums_of_doubles(values, counted, offsets, is_mean, found, counts)
    return found, counts
