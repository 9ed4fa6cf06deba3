"""Sums and means are those of fractions, rounded once."""

import itertools
import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from spojoin.kernels.exact_sums import means_of_integers, sums_of_doubles, sums_of_integers

LEAST, GREATEST = 5e-324, 1.7976931348623157e308
KINDS = {
    "near one": lambda rng: rng.uniform(-1, 1),
    "all exponents": lambda rng: math.ldexp(rng.uniform(-1, 1), rng.randint(-1074, 1023)),
    "extremes": lambda rng: rng.choice([LEAST, -LEAST, 1e308, -1e308, 1.0, 1e-16, 2.0**53, 2.2250738585072014e-308]),
    "denormals": lambda rng: math.ldexp(rng.randint(-3, 3), rng.randint(-1074, -1060)),
    "integers": lambda rng: float(rng.randint(-(2**53), 2**53)),
    "decimals": lambda rng: rng.choice([0.1, 0.2, 0.3, -0.1, -0.0]),
}


def rounded(exact):
    """The double nearest to a fraction: Python rounds the quotient of two integers correctly."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def segments(rng, kind):
    """Values, and where segments of up to 20 begin and end."""
    sizes = [rng.randint(1, 20) for _ in range(300)]
    values = [KINDS[kind](rng) for _ in range(sum(sizes))]
    return values, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def doubles(values, offsets, *, is_mean, valid=None):
    sums, counts = np.empty(len(offsets) - 1), np.empty(len(offsets) - 1, np.int64)
    valid = np.ones(len(values), bool) if valid is None else valid
    sums_of_doubles(np.array(values, float), valid, np.array(offsets), is_mean, sums, counts)
    return sums.tolist(), counts.tolist()


@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_doubles_are_summed_as_fractions(kind, is_mean):
    values, offsets = segments(Random(kind), kind)
    found, _ = doubles(values, offsets, is_mean=is_mean)
    for q, (begin, end) in enumerate(itertools.pairwise(offsets)):
        exact = sum(map(Fraction, values[begin:end]), Fraction(0)) / (end - begin if is_mean else 1)
        assert found[q] == rounded(exact), values[begin:end]


def test_the_order_of_terms_does_not_show():
    rng = Random(1)
    values = [KINDS["all exponents"](rng) for _ in range(1_000)]
    orders = [rng.sample(values, len(values)) for _ in range(5)]
    assert len({doubles(order, [0, len(order)], is_mean=False)[0][0] for order in orders}) == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([GREATEST, GREATEST], math.inf),
        ([GREATEST, GREATEST, -GREATEST], GREATEST),
    ],
)
def test_infinities_are_those_of_ieee_arithmetic(values, expected):
    assert doubles(values, [0, len(values)], is_mean=False)[0] == pytest.approx([expected], nan_ok=True)


def test_what_is_not_valid_does_not_count():
    valid = np.array([True, False, True, False])
    assert doubles([1.0, 5.0, 2.0, 7.0], [0, 3, 4, 4], is_mean=False, valid=valid) == ([3.0, 0.0, 0.0], [2, 0, 0])


def halves(values):
    return (
        np.array([value & (2**64 - 1) for value in values], np.uint64),
        np.array([value >> 64 for value in values], np.int64),
    )


def test_integers_are_summed_in_128_bits_and_say_where_they_take_more():
    rng = Random(2)
    draws = (
        lambda: rng.randint(-(2**63), 2**63 - 1),
        lambda: rng.randint(-(2**127), 2**127 - 1) // 4,
        lambda: rng.randint(-5, 5),
    )
    values = [rng.choice(draws)() for _ in range(3_000)]
    offsets = np.sort(np.array([0, len(values), *(rng.randint(0, len(values)) for _ in range(800))], np.int64))
    m = len(offsets) - 1
    low, high, counts, means = np.empty(m, np.uint64), np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    beyond = sums_of_integers(*halves(values), np.ones(len(values), bool), offsets, low, high, counts)
    means_of_integers(low, high, counts, np.uint64(10**7), means)
    for q in range(m):
        exact = sum(values[offsets[q] : offsets[q + 1]])
        assert bool(beyond[q]) is not (-(2**127) <= exact < 2**127)
        if not beyond[q]:
            assert (int(high[q]) << 64) + int(low[q]) == exact
        if counts[q] and not beyond[q]:
            assert means[q] == rounded(Fraction(exact, int(counts[q]) * 10**7))
