"""Sums without rounding: of doubles as a long fixed-point number (Kulisch accumulator), of integers beside them.

A sum is a row of DIGITS signed 64-bit numbers, of which each stands for 32 bits; the lowest bit of all is worth
2**-1074, that of the least double. Carries wait in the upper halves. So a sum doesn't depend on the order of its terms,
and is rounded once, when it, or its quotient, is read.
"""

from __future__ import annotations

import numpy as np

from spojoin.arrays import F64, I64, U64, Flags
from spojoin.kernels.compile import inlined, kernel

#: 2,098 bits of doubles, and 64 more for as many terms as there may be, all rounded up.
DIGITS = 72
#: Where integers begin: bit 1074.
_ONE_DIGIT, _ONE_SHIFT = 1074 // 32, 1074 % 32
#: Digits put below a sum before it is divided, so that nothing that rounding needs is lost.
_GUARD = 3
_MASK = np.int64(0xFFFF_FFFF)
_LOW = np.uint64(0xFFFF_FFFF)
_MANTISSA = np.uint64((1 << 52) - 1)
#: Terms after which carries are passed on.
_TERMS_MAX = 1 << 29

FINITE, POSITIVE, NEGATIVE, NEITHER = 0, 1, 2, 3
#: In place of the place of a double's lowest bit: it isn't finite.
NOT_FINITE = -1


@inlined
def split(value: float) -> tuple[int | np.int64, np.uint64, bool]:
    """A double's magnitude: the place of its lowest bit above 2**-1074, and its mantissa; and whether it is negative.

    The place of one that isn't finite is NOT_FINITE; its mantissa is 0 if it is infinite.
    """
    bits = np.float64(value).view(np.uint64)
    exponent, mantissa = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF)), bits & _MANTISSA
    negative = bool(bits >> np.uint64(63))
    if exponent == 0x7FF:
        return NOT_FINITE, mantissa, negative
    if exponent == 0:
        return exponent, mantissa, negative
    return exponent - 1, mantissa | (np.uint64(1) << np.uint64(52)), negative


@inlined
def shifted(low: np.uint64, shift: int | np.int64) -> tuple[np.int64, np.int64, np.int64]:
    """The digits of a 64-bit number times 2**shift, shift < 32."""
    first = np.int64((low << np.uint64(shift)) & _LOW)
    second = np.int64((low >> np.uint64(32 - shift)) & _LOW)
    third = np.int64(low >> np.uint64(64 - shift)) if shift else np.int64(0)
    return first, second, third


@inlined
def _add_shifted(digits: I64, at: int | np.int64, shift: int | np.int64, low: np.uint64, negative: bool) -> None:
    """Add a 64-bit number, or subtract it, times 2**(32 at + shift)."""
    first, second, third = shifted(low, shift)
    if negative:
        digits[at] -= first
        digits[at + 1] -= second
        digits[at + 2] -= third
    else:
        digits[at] += first
        digits[at + 1] += second
        digits[at + 2] += third


@inlined
def _carried(digits: I64) -> bool:
    """Pass carries on, so that all digits but the last lie within 32 bits; returns whether the number is negative."""
    carry = np.int64(0)
    for k in range(len(digits) - 1):
        whole = digits[k] + carry
        digits[k] = whole & _MASK
        carry = whole >> 32
    digits[-1] += carry
    return bool(digits[-1] < 0)


@inlined
def _absolute(digits: I64) -> bool:
    """Make the number its magnitude; returns whether it was negative."""
    negative = _carried(digits)
    if negative:
        for k in range(len(digits)):
            digits[k] = -digits[k]
        _carried(digits)
    return negative


@inlined
def _divided(digits: I64, divisor: np.uint64) -> bool:
    """Divide a magnitude; returns whether something is left over."""
    rest = np.uint64(0)
    if divisor < np.uint64(1) << np.uint64(32):
        for k in range(len(digits) - 1, -1, -1):
            whole = (rest << np.uint64(32)) | np.uint64(digits[k])
            digits[k] = np.int64(whole // divisor)
            rest = whole % divisor
        return bool(rest != np.uint64(0))
    for k in range(len(digits) - 1, -1, -1):  # bit by bit, since the rest takes up to 64 bits
        digit, quotient = np.uint64(digits[k]), np.uint64(0)
        for bit in range(31, -1, -1):
            overflow = rest >> np.uint64(63)
            rest = (rest << np.uint64(1)) | ((digit >> np.uint64(bit)) & np.uint64(1))
            quotient <<= np.uint64(1)
            if overflow or rest >= divisor:
                rest -= divisor
                quotient |= np.uint64(1)
        digits[k] = np.int64(quotient)
    return bool(rest != np.uint64(0))


@inlined
def _bit(digits: I64, at: int) -> np.uint64:
    return np.uint64(digits[at >> 5] >> (at & 31)) & np.uint64(1)


@inlined
def _rounded(digits: I64, sticky: bool) -> float:
    """The nearest double, ties to even, of a magnitude whose lowest bit is worth 2**(-1074 - 32 _GUARD)."""
    top = len(digits) - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    high = 32 * top + 31
    while _bit(digits, high) == 0:
        high -= 1
    low = max(high - 52, 32 * _GUARD)
    mantissa = np.uint64(0)
    for at in range(high, low - 1, -1):
        mantissa = (mantissa << np.uint64(1)) | _bit(digits, at)
    half = _bit(digits, low - 1) != 0
    if half and not sticky:
        sticky = (digits[(low - 1) >> 5] & ((np.int64(1) << ((low - 1) & 31)) - 1)) != 0
        for k in range((low - 1) >> 5):
            sticky = sticky or digits[k] != 0
    if half and (sticky or (mantissa & np.uint64(1)) != 0):
        mantissa += np.uint64(1)
    exponent = low - 32 * _GUARD
    if mantissa >> np.uint64(53):
        mantissa >>= np.uint64(1)
        exponent += 1
    if mantissa >> np.uint64(52) == 0:  # denormal, of the least exponent
        return np.int64(mantissa).view(np.float64)
    if exponent + 1 >= 2047:
        return np.inf
    return np.int64((np.uint64(exponent + 1) << np.uint64(52)) | (mantissa & _MANTISSA)).view(np.float64)


@inlined
def _quotient(digits: I64, divisor: np.uint64, scale: np.uint64, room: I64) -> float:
    """The sum over two divisors, rounded once; room: (DIGITS + _GUARD,) to work in."""
    room[:_GUARD] = 0
    room[_GUARD:] = digits
    negative = _absolute(room)
    left = _divided(room, divisor) if divisor > np.uint64(1) else False
    left = (_divided(room, scale) if scale > np.uint64(1) else False) or left
    value = _rounded(room, left)
    return -value if negative else value


@inlined
def rounded_quotient(digits: I64, divisor: np.uint64) -> float:
    """A sum, int64 (DIGITS,), over a divisor, rounded once."""
    return _quotient(digits, divisor, np.uint64(1), np.empty(DIGITS + _GUARD, np.int64))


@kernel
def sums_of_doubles(values: F64, valid: Flags, offsets: I64, is_mean: bool, sums: F64, counts: I64) -> None:
    """The sums, or means, of segments, each rounded once; NaN and infinities as in IEEE arithmetic.

    values, valid: (n,); offsets: (m + 1,); sums, counts of valid values: (m,), written
    """
    digits, room = np.zeros(DIGITS, np.int64), np.zeros(DIGITS + _GUARD, np.int64)
    for q in range(len(offsets) - 1):
        digits[:] = 0
        kind, count = FINITE, 0
        for k in range(offsets[q], offsets[q + 1]):
            if not valid[k]:
                continue
            count += 1
            place, mantissa, negative = split(values[k])
            if place == NOT_FINITE:
                kind |= NEITHER if mantissa != np.uint64(0) else NEGATIVE if negative else POSITIVE
                continue
            _add_shifted(digits, place >> 5, place & 31, mantissa, negative)
            if count & (_TERMS_MAX - 1) == 0:
                _carried(digits)
        counts[q] = count
        if kind == FINITE:
            sums[q] = _quotient(digits, np.uint64(max(count, 1) if is_mean else 1), np.uint64(1), room)
        else:
            sums[q] = np.inf if kind == POSITIVE else -np.inf if kind == NEGATIVE else np.nan


@kernel
def sums_of_integers(low: U64, high: I64, valid: Flags, offsets: I64, sums: U64, tops: I64, counts: I64) -> Flags:
    """The sums of segments of 128-bit integers, and of which they take more than 128 bits.

    low, high: (n,), halves of the values; sums, tops: (m,), halves of the sums, written, as are the counts
    """
    beyond = np.zeros(len(counts), np.bool_)
    for q in range(len(offsets) - 1):
        bottom, middle, top, count = np.uint64(0), np.uint64(0), np.int64(0), 0
        for k in range(offsets[q], offsets[q + 1]):
            if not valid[k]:
                continue
            count += 1
            bottom += low[k]
            carry = np.uint64(bottom < low[k])
            upper = np.uint64(high[k])
            middle += upper
            over = np.int64(middle < upper)
            middle += carry
            over += np.int64(carry != np.uint64(0) and middle == np.uint64(0))
            top += over + (np.int64(-1) if high[k] < 0 else np.int64(0))
        sums[q], tops[q], counts[q] = bottom, np.int64(middle), count
        beyond[q] = top != (np.int64(-1) if np.int64(middle) < 0 else np.int64(0))
    return beyond


@kernel
def means_of_integers(low: U64, high: I64, counts: I64, scale: np.uint64, means: F64) -> None:
    """128-bit sums over their counts and a power of ten, rounded once; low, high, counts, means: (m,)."""
    digits, room = np.zeros(DIGITS, np.int64), np.zeros(DIGITS + _GUARD, np.int64)
    for q in range(len(counts)):
        if counts[q] == 0:
            means[q] = np.nan
            continue
        digits[:] = 0
        negative = high[q] < 0
        bottom, top = low[q], np.uint64(high[q])
        if negative:
            bottom = ~bottom + np.uint64(1)
            top = ~top + np.uint64(bottom == np.uint64(0))
        _add_shifted(digits, _ONE_DIGIT, _ONE_SHIFT, bottom, negative)
        _add_shifted(digits, _ONE_DIGIT + 2, _ONE_SHIFT, top, negative)
        means[q] = _quotient(digits, np.uint64(counts[q]), scale, room)
