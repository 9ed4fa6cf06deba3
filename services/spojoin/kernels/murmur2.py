"""Murmur2, by which the default partitioners of Kafka's Java clients choose the partition of a key."""

from __future__ import annotations

import numpy as np

from spojoin.arrays import I64, U8, U32
from spojoin.kernels.compile import kernel

_SEED, _MIX, _LOW = np.uint64(0x9747B28C), np.uint64(0x5BD1E995), np.uint64(0xFFFFFFFF)
_8, _13, _15, _24 = (np.uint64(bits) for bits in (8, 13, 15, 24))


@kernel
def murmur2(data: U8, offsets: I64) -> U32:
    """The hash of each of n keys, uint32 (n,); key q is data[offsets[q]:offsets[q + 1]]."""
    found = np.empty(len(offsets) - 1, np.uint32)
    for q in range(len(found)):
        at, end = offsets[q], offsets[q + 1]
        h = _SEED ^ np.uint64(end - at)
        while at < end:
            count = min(4, end - at)
            k = np.uint64(0)
            for i in range(at + count - 1, at - 1, -1):
                k = (k << _8) | np.uint64(data[i])
            if count == 4:
                k = (k * _MIX) & _LOW
                k = ((k ^ (k >> _24)) * _MIX) & _LOW
                h = ((h * _MIX) & _LOW) ^ k
            else:
                h = ((h ^ k) * _MIX) & _LOW
            at += count
        h = ((h ^ (h >> _13)) * _MIX) & _LOW
        found[q] = h ^ (h >> _15)
    return found
