"""Running sums in few bytes: what each exceeds the least of its block by, in as many bytes as hold that.

They fill the cache rather than the processor: a sum is two reads and an addition, and takes 2.25 bytes where weights
are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.memory import located, signed_words, word_at

#: Running sums of a block.
BLOCK = 32
_SHIFT = 5
#: Bits of a sum's width in bytes that are tried, and that hold whatever comes.
_NARROWEST, _WIDEST = 1, 3
#: Sums are read eight bytes at a time, also the last ones.
SPARE = 8

#: Words of running sums in a node's directory, and their places.
RUNNING_ENTRY = 3
EXCESSES, LEASTS, WIDTH = range(RUNNING_ENTRY)


@dataclass(frozen=True, slots=True)
class RunningSums:
    """The weights of the first z of n tuples in an order, 0 <= z <= n: leasts[z >> 5] + excesses[z].

    excesses: unsigned of 2, 4 or 8 bytes, (n + 1 + SPARE,); leasts: int64, one for each BLOCK
    """

    excesses: NDArray[Any]
    leasts: I64

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.excesses.nbytes + self.leasts.nbytes

    @property
    def entry(self) -> list[int]:
        """Their entry in a node's directory; the arrays must stay alive."""
        return [located(self.excesses)[0], located(self.leasts)[0], bits_of(self.excesses)]


def running(order: NDArray[Any], weights: I64) -> RunningSums:
    """The weights of the first tuples in an order; weights: int64 (n,), by offset."""
    sums = np.zeros(len(order) + 1, np.int64)
    np.cumsum(weights[order], out=sums[1:])
    excesses = np.empty(len(sums) + SPARE, excess_type(greatest(weights)))
    leasts = np.empty(-(-len(sums) // BLOCK), np.int64)
    _shorten(sums, excesses, leasts)
    return RunningSums(excesses, leasts)


def bits_of(numbers: NDArray[Any]) -> int:
    """The bits of a number's bytes: numbers take 1 << bits bytes each."""
    return numbers.itemsize.bit_length() - 1


def excess_type(most: int) -> np.dtype[Any]:
    """The unsigned type that holds what a block's sums differ by; most: the greatest absolute weight."""
    bits = (most * (BLOCK - 1)).bit_length()
    width = max(_NARROWEST, min(_WIDEST, (max(bits, 1) - 1).bit_length() - 3))
    return np.dtype(f"u{1 << width}")


def greatest(weights: I64) -> int:
    """The greatest absolute weight."""
    return max(int(weights.max(initial=0)), -int(weights.min(initial=0)))


@kernel
def _shorten(sums: I64, excesses: NDArray[Any], leasts: I64) -> None:
    shorten(sums, excesses, leasts)


@inlined
def shorten(sums: I64, excesses: NDArray[Any], leasts: I64) -> None:
    """Write sums, (n,), as excesses, (n + SPARE,), and leasts."""
    for block in range(len(leasts)):
        begin = block * BLOCK
        end = min(begin + BLOCK, len(sums))
        least = sums[begin]
        for i in range(begin + 1, end):
            least = min(least, sums[i])
        leasts[block] = least
        for i in range(begin, end):
            excesses[i] = sums[i] - least
    excesses[len(sums) :] = 0


@inlined
def running_at(entry: I64, z: int) -> np.int64:
    """The weights of the first z tuples; entry: as of `RunningSums`."""
    width = np.uint64(entry[WIDTH])
    spare = np.uint64(64) - (np.uint64(8) << width)
    excess = (word_at(entry[EXCESSES] + (z << entry[WIDTH])) << spare) >> spare
    block = z >> _SHIFT
    least: np.int64 = signed_words(entry[LEASTS], block + 1)[block]
    return np.int64(excess) + least
