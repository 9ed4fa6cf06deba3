"""Bit arrays over the places of a batch: rows of 64-bit words that kernels fill, meet and read out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, popcount, trailing_zeros
from spojoin.published.methods.side import I64

U64 = NDArray[np.uint64]

_ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE: Final = np.uint64(1)
_SIX: Final = np.uint64(6)
_LAST: Final = np.uint64(63)


@inlined
def words_of(places: int) -> int:
    """The number of words that hold this many bits."""
    return (places + 63) >> 6


@inlined
def set_bit(words: U64, place: int) -> None:
    """Set one bit."""
    bit = np.uint64(place)
    words[bit >> _SIX] |= _ONE << (bit & _LAST)


@inlined
def mask_of(word: int, begin: int, end: int) -> np.uint64:
    """The bits of a word that stand for places in [begin, end); the word has at least one of them."""
    mask = _ALL
    if word == begin >> 6:
        mask &= _ALL << np.uint64(begin & 63)
    if word == (end - 1) >> 6:
        mask &= _ALL >> np.uint64(63 - ((end - 1) & 63))
    return np.uint64(mask)


@inlined
def count_bits(words: U64, begin: int, end: int) -> int:
    """Bits set at places in [begin, end)."""
    found = np.uint64(0)
    if begin < end:
        for word in range(begin >> 6, ((end - 1) >> 6) + 1):
            found += popcount(words[word] & mask_of(word, begin, end))
    return int(found)


@inlined
def list_bits(words: U64, begin: int, end: int, first: int, out: I64, used: int) -> int:
    """Append first + place of the bits set at places in [begin, end), ascending; the new length."""
    if begin < end:
        for word in range(begin >> 6, ((end - 1) >> 6) + 1):
            left = words[word] & mask_of(word, begin, end)
            while left:
                out[used] = first + (word << 6) + np.int64(trailing_zeros(left))
                used += 1
                left &= left - _ONE
    return used
