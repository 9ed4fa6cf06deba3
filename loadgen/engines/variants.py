"""The data: six ways to draw integer columns, defined by README.md, with 64-bit integer arithmetic only.

A row depends only on its variant and its position, so any part can be made without the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64, U64

#: SplitMix64's constants (Steele, Lea, Flood, OOPSLA 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
#: The number of draws per row.
DRAWS = np.uint64(8)
#: The mean sum of four pieces of 16 bits; the least is 0.
NORMAL_MEAN = 131_070
ZIPF_KEYS = 10_000
#: A sum of c over 262,144 probes of a window of 1,000,000 has 49 bits: doubles hold it exactly.
VALUE_BITS, KEY_BITS = 10, 2
#: Prefixes of the data whose SHA-256 is published, in rows.
CHECKED_ROWS = (1_000, 100_000, 2_000_000)


def mixed(state: U64) -> U64:
    """SplitMix64's output for a state: uint64 of the same shape."""
    z = (state ^ (state >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


class Draws:
    """The random words of a variant: `draws(i, k)` is word k, 0 to 7, of each row in i, uint64."""

    def __init__(self, number: int) -> None:
        self._seed = mixed(np.array([number], np.uint64))

    def __call__(self, at: I64, k: int) -> U64:
        """uint64 (n,) of row numbers int64 (n,)."""
        counter = at.astype(np.uint64) * DRAWS + np.uint64(k + 1)
        return mixed(self._seed + counter * GOLDEN)


Rows = Callable[[Draws, I64], tuple[I64, I64]]


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to draw a and b; c and k are drawn alike in all variants.

    number: of its seed
    band: the widths of q2 in a and b, such that few pairs match
    shift: by how much a must be smaller and b larger in q4 and q5, such that many rows have no partner
    rise: the same for a in q7
    near, longest: the width of q9 in a, and the longest interval of q10, such that a row has few partners
    """

    name: str
    number: int
    about: str
    band: tuple[int, int]
    shift: tuple[int, int]
    rise: int
    near: int
    longest: int
    rows: Rows

    def columns(self, rows: int, first: int = 0) -> tuple[I64, I64]:
        """Columns a and b of the rows from `first` on, int64 (rows,) each."""
        return self.rows(Draws(self.number), np.arange(first, first + rows, dtype=np.int64))

    def further(self, rows: int, first: int = 0) -> tuple[I64, I64]:
        """Columns c and k of the same rows: values of 10 bits, and keys of 2."""
        draws, at = Draws(self.number), np.arange(first, first + rows, dtype=np.int64)
        return _top(draws(at, 3), VALUE_BITS), _top(draws(at, 4), KEY_BITS)

    def ends(self, a: I64, c: I64) -> I64:
        """The exclusive ends of intervals that begin at a; c determines their lengths."""
        return a + 1 + (c * self.longest >> VALUE_BITS)

    def sha256(self, rows: int) -> str:
        """The SHA-256 of the first rows: a and b of each row in turn, 8 bytes each, little endian."""
        return _sha256(self.columns(rows))

    def sha256_further(self, rows: int) -> str:
        """The same for c and k."""
        return _sha256(self.further(rows))


def _sha256(columns: tuple[I64, I64]) -> str:
    return hashlib.sha256(np.stack(columns, axis=1).astype("<i8").tobytes()).hexdigest()


def _top(words: U64, bits: int) -> I64:
    return (words >> np.uint64(64 - bits)).astype(np.int64)


def _normal(words: U64) -> I64:
    """Nearly normal, mean 0, standard deviation 37,837: four pieces of 16 bits, summed."""
    pieces = [(words >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    total: U64 = np.sum(pieces, axis=0, dtype=np.uint64)
    return total.astype(np.int64) - NORMAL_MEAN


def _uniform(draws: Draws, at: I64) -> tuple[I64, I64]:
    return _top(draws(at, 0), 20), _top(draws(at, 1), 20)


def _taxi(draws: Draws, at: I64) -> tuple[I64, I64]:
    distance = (_normal(draws(at, 0)) + NORMAL_MEAN) ** 2 >> 24
    asked = 300 + 2 * distance + (_normal(draws(at, 1)) >> 6)
    return distance, 50 * np.maximum(5, asked // 50)


def _blond(draws: Draws, at: I64) -> tuple[I64, I64]:
    day = 32_768 - np.abs(at % 65_536 - 32_768)
    power = 20_000 + 500 * _top(draws(at, 0), 6) + (day >> 2) + (_normal(draws(at, 1)) >> 5)
    return power, (3 * power >> 3) + (_normal(draws(at, 2)) >> 5)


def _zipf(draws: Draws, at: I64) -> tuple[I64, I64]:
    below = np.cumsum(2**24 // np.arange(1, ZIPF_KEYS + 1, dtype=np.int64))
    total = below[-1]
    ranks = [np.searchsorted(below, _top(draws(at, k), 32) * total >> 32, side="right") for k in (0, 1)]
    a, b = ((rank + 1) * 7_919 % 10_007 for rank in ranks)
    return a, b


def _drift(draws: Draws, at: I64) -> tuple[I64, I64]:
    a, b = _uniform(draws, at)
    return a + 8 * at, b - 8 * at


def _ties(draws: Draws, at: I64) -> tuple[I64, I64]:
    run = draws(at >> 6, 2)
    is_run = _top(run, 1) == 1
    a = np.where(is_run, _top(run, 3) & 3, _top(draws(at, 0), 2))
    b = np.where(is_run, _top(run, 5) & 3, _top(draws(at, 1), 2))
    return a, b


_ALL = (
    Variant(
        "uniform",
        1,
        "two independent columns of 20 bits",
        (16_384,) * 2,
        (262_144,) * 2,
        262_144,
        2_048,
        1_024,
        _uniform,
    ),
    Variant(
        "taxi", 2, "distance, and a fare in steps of 50 that follows it", (10, 100), (300, 700), 2_000, 3, 2, _taxi
    ),
    Variant(
        "blond",
        3,
        "power of 64 racks over a day, and the cooling that it needs",
        (200, 200),
        (2_000, 2_000),
        10_000,
        70,
        36,
        _blond,
    ),
    Variant("zipf", 4, "10,000 keys, the most frequent a tenth of all", (4, 4), (2_500,) * 2, 2_500, 1, 1, _zipf),
    Variant(
        "drift",
        5,
        "uniform columns that move by their width in 131,072 rows, a up and b down",
        (16_384,) * 2,
        (262_144,) * 2,
        262_144,
        2_048,
        1_024,
        _drift,
    ),
    Variant(
        "ties",
        6,
        "four values a column, half of the rows in runs of 64 that are all the same",
        (1, 1),
        (0, 0),
        0,
        1,
        1,
        _ties,
    ),
)
VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in _ALL}
