"""From a predicate and a probe to the interval of stored codes that match."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel
from spojoin.model import Domain, Op

LEAST = np.iinfo(np.int64).min
GREATEST = np.iinfo(np.int64).max
#: What a search of a code finds: where the codes equal to it begin, and where they end.
BELOW, UPTO = 0, 1
#: Where the rank interval of `stored op probe` begins and ends, by searching the probe's code: 0 and the number of
#: stored codes where it isn't said here. NE admits all ranks but these.
BEGINS = {Op.GT: UPTO, Op.GE: BELOW, Op.EQ: BELOW, Op.NE: BELOW}
ENDS = {Op.LT: BELOW, Op.LE: UPTO, Op.EQ: UPTO, Op.NE: UPTO}
_U64_GREATEST = np.iinfo(np.uint64).max
_SIGN = np.uint64(1 << 63)


def bounds(op: Op, domain: Domain, width: int | float, probes: I64) -> tuple[I64, I64]:
    """Inclusive intervals [lo, hi] of the stored codes with `stored op probe`; lo > hi if nothing matches.

    probes: int64 (m,) codes. Returns two int64 (m,). For NE the interval is that of EQ, and the caller takes the
    complement. Empty intervals aside, neither bound falls as the probe rises.
    """
    match op:
        case Op.LT | Op.LE:
            return _below(probes, strict=op is Op.LT)
        case Op.GT | Op.GE:
            return _above(probes, strict=op is Op.GT)
        case Op.EQ | Op.NE:
            return probes.copy(), probes.copy()
        case Op.BAND_LT | Op.BAND_LE if domain is Domain.FLOAT:
            return _double_band(probes, float(width), op is Op.BAND_LE)
        case Op.BAND_LT | Op.BAND_LE:
            return _integer_band(probes, int(width) - (op is Op.BAND_LT))


def _below(probes: I64, *, strict: bool) -> tuple[I64, I64]:
    lo, hi = np.full_like(probes, LEAST), probes.copy()
    if strict:
        lo[probes == LEAST] = GREATEST
        hi[probes != LEAST] -= 1
    return lo, hi


def _above(probes: I64, *, strict: bool) -> tuple[I64, I64]:
    lo, hi = probes.copy(), np.full_like(probes, GREATEST)
    if strict:
        hi[probes == GREATEST] = LEAST
        lo[probes != GREATEST] += 1
    return lo, hi


def _integer_band(probes: I64, half: int) -> tuple[I64, I64]:
    """[probe - half, probe + half], clamped to int64; `half` may exceed them."""
    if half < 0:
        return _nothing(probes)
    # Biased by 2**63 the codes are unsigned, and the distance to either end is a subtraction that can't overflow.
    biased = probes.view(np.uint64) ^ _SIGN
    reach = np.uint64(min(half, _U64_GREATEST))
    lo = biased - np.minimum(biased, reach)
    hi = biased + np.minimum(~biased, reach)
    return (lo ^ _SIGN).view(np.int64), (hi ^ _SIGN).view(np.int64)


def _nothing(probes: I64) -> tuple[I64, I64]:
    return np.full_like(probes, GREATEST), np.full_like(probes, LEAST)


def _double_band(probes: I64, width: float, closed: bool) -> tuple[I64, I64]:
    """{x: |x - y| < width} (<= where closed) as IEEE doubles evaluate it.

    For a fixed y the rounded difference never falls as x rises, and negation is exact, so the lower bound is the
    mirrored upper bound of -y, and code(-x) = ~code(x).
    """
    if not (width > 0 or (closed and width == 0)):
        return _nothing(probes)
    lo, hi = np.empty_like(probes), np.empty_like(probes)
    _upper_bounds(~probes, width, closed, lo)
    _upper_bounds(probes, width, closed, hi)
    np.invert(lo, out=lo)
    infinite = np.abs(_unfold(probes)) == np.inf
    if infinite.any():
        _set_infinite(probes, infinite, closed and width == np.inf, lo, hi)
    return lo, hi


def _set_infinite(probes: I64, infinite: NDArray[np.bool_], all_others: bool, lo: I64, hi: I64) -> None:
    """An infinite probe differs by infinity from every stored value but itself, from which its difference is NaN."""
    lo[infinite], hi[infinite] = GREATEST, LEAST
    if all_others:
        negative, positive = infinite & (probes < 0), infinite & (probes >= 0)
        lo[negative], hi[negative] = probes[negative] + 1, GREATEST
        lo[positive], hi[positive] = LEAST, probes[positive] - 1


def _unfold(codes: I64) -> NDArray[np.float64]:
    return np.where(codes >= 0, codes, codes ^ GREATEST).view(np.float64)


@inlined
def _value(code: np.int64) -> float:
    bits = code if code >= 0 else code ^ np.int64(0x7FFF_FFFF_FFFF_FFFF)
    return float(np.int64(bits).view(np.float64))


@inlined
def _code(value: float) -> np.int64:
    bits = np.float64(value + 0.0).view(np.int64)
    return bits if bits >= 0 else bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF)


@inlined
def _within(code: np.int64, y: float, width: float, closed: bool) -> bool:
    distance = _value(code) - y
    return bool(distance < width or (closed and distance == width))


@inlined
def _bisected(inside: np.int64, outside: np.int64, y: float, width: float, closed: bool) -> np.int64:
    """The largest code within `width` of y in [inside, outside); `inside` is within it."""
    while True:
        middle = (inside & outside) + ((inside ^ outside) >> 1)
        if middle == inside:
            return inside
        if _within(middle, y, width, closed):
            inside = middle
        else:
            outside = middle


@kernel
def _upper_bounds(probes: I64, width: float, closed: bool, out: I64) -> None:
    """The largest code whose value lies within `width` above each finite probe.

    The guess y + width is mostly a few codes off; where y nearly cancels, the bound may be 2**62 codes away, hence
    the galloping before the bisection.
    """
    infinity = _code(np.inf)
    for q in range(len(probes)):
        y = _value(probes[q])
        if not np.isfinite(y):
            out[q] = 0
            continue
        inside = max(probes[q], min(_code(y + width), infinity))
        step = np.int64(1)
        if _within(inside, y, width, closed):
            outside = infinity
            if _within(infinity, y, width, closed):
                out[q] = infinity
                continue
            while inside < infinity - step and _within(inside + step, y, width, closed):
                inside += step
                step = min(step << 1, np.int64(1) << 61)
            if inside < infinity - step:
                outside = inside + step
        else:
            outside = inside
            inside = probes[q]
            while outside > probes[q] + step and not _within(outside - step, y, width, closed):
                outside -= step
                step = min(step << 1, np.int64(1) << 61)
            if outside > probes[q] + step:
                inside = outside - step
        out[q] = _bisected(inside, outside, y, width, closed)
