"""Numbers as rows of digits that add up as integers: sums of weights are exact in any order and in any parts.

A digit stands for 32 bits and takes its number's sign, so that 2**31 of them fit 64 bits. Digits of doubles are those
of `exact_sums`; the lowest of integers is worth 1. Most numbers have few, and only those that some number has are kept.
"""

from __future__ import annotations

import numpy as np

from spojoin.arrays import F64, I64, U64, Flags
from spojoin.kernels.compile import kernel
from spojoin.kernels.exact_sums import (
    DIGITS,
    FINITE,
    NEGATIVE,
    NEITHER,
    NOT_FINITE,
    POSITIVE,
    rounded_quotient,
    shifted,
    split,
)

#: Digits of 128-bit integers.
WHOLE_DIGITS = 4
_LOW = np.uint64(0xFFFF_FFFF)


def of_doubles(values: F64, counted: Flags) -> tuple[I64, I64]:
    """The digits that the counted values have, ascending (k,), and the rows of them, int64 (k, n).

    values: (n,); those that are not finite have none. counted: (n,)
    """
    used = np.zeros(DIGITS, np.bool_)
    _find_digits(values, counted, used)
    digits = np.flatnonzero(used)
    rows = np.zeros((len(digits), len(values)), np.int64)
    _write_digits(values, counted, (np.cumsum(used) - 1).astype(np.int64), rows)
    return digits, rows


def of_integers(low: U64, high: I64, counted: Flags) -> tuple[I64, I64]:
    """`of_doubles` for 128-bit integers, in halves (n,) each."""
    rows = np.zeros((WHOLE_DIGITS, len(low)), np.int64)
    _write_whole(low, high, counted, rows)
    digits = np.flatnonzero(rows.any(axis=1))
    return digits, rows[digits]


@kernel
def _find_digits(values: F64, counted: Flags, used: Flags) -> None:
    for k in range(len(values)):
        place, mantissa, _ = split(values[k])
        if counted[k] and place != NOT_FINITE:
            for d, digit in enumerate(shifted(mantissa, place & 31)):
                used[(place >> 5) + d] |= digit != 0


@kernel
def _write_digits(values: F64, counted: Flags, row_of: I64, rows: I64) -> None:
    for k in range(len(values)):
        place, mantissa, negative = split(values[k])
        if counted[k] and place != NOT_FINITE:
            for d, digit in enumerate(shifted(mantissa, place & 31)):
                if digit != 0:
                    rows[row_of[(place >> 5) + d], k] = -digit if negative else digit


@kernel
def _write_whole(low: U64, high: I64, counted: Flags, rows: I64) -> None:
    for k in range(len(low)):
        if not counted[k]:
            continue
        bottom, top, sign = low[k], np.uint64(high[k]), np.int64(1)
        if high[k] < 0:
            bottom, top, sign = ~bottom + np.uint64(1), ~top, np.int64(-1)
            if bottom == np.uint64(0):
                top += np.uint64(1)
        rows[0, k] = sign * np.int64(bottom & _LOW)
        rows[1, k] = sign * np.int64(bottom >> np.uint64(32))
        rows[2, k] = sign * np.int64(top & _LOW)
        rows[3, k] = sign * np.int64(top >> np.uint64(32))


@kernel
def whole_numbers(digits: I64, low: U64, high: I64) -> Flags:
    """Sums of integers in halves of 128 bits, (n,) each, written, and which of them take more than 128 bits.

    digits: int64 (4, n), overwritten
    """
    beyond = np.zeros(len(low), np.bool_)
    for k in range(len(low)):
        for d in range(len(digits) - 1):
            digits[d + 1, k] += digits[d, k] >> 32
            digits[d, k] &= np.int64(_LOW)
        low[k] = np.uint64(digits[0, k]) | (np.uint64(digits[1, k]) << np.uint64(32))
        top = digits[3, k]
        beyond[k] = not -(1 << 31) <= top < 1 << 31
        high[k] = digits[2, k] | (top << 32)
    return beyond


@kernel
def doubles(numbers: I64, digits: I64, counts: I64, kinds: I64, is_mean: bool, out: F64) -> None:
    """Sums, or means, of doubles, each rounded once; NaN and infinities as in IEEE arithmetic.

    numbers: int64 (k,), of the rows `digits`, int64 (k, n); counts: int64 (n,), of the values
    kinds: int64 (3, n), how many of them are NaN, infinite, negative and infinite; out: (n,), written
    """
    whole = np.empty(DIGITS, np.int64)
    for k in range(len(out)):
        kind = FINITE
        kind |= NEITHER if kinds[0, k] > 0 else 0
        kind |= POSITIVE if kinds[1, k] > 0 else 0
        kind |= NEGATIVE if kinds[2, k] > 0 else 0
        if kind != FINITE:
            out[k] = np.inf if kind == POSITIVE else -np.inf if kind == NEGATIVE else np.nan
            continue
        whole[:] = 0
        for d in range(len(numbers)):
            whole[numbers[d]] = digits[d, k]
        out[k] = rounded_quotient(whole, np.uint64(max(counts[k], 1) if is_mean else 1))
