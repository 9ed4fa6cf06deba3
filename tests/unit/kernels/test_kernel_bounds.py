import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.bounds import bounds
from spojoin.model import Domain, Op
from tests.support.nested_loop import fold, holds

LEAST, GREATEST = -(2**63), 2**63 - 1
EDGES = [LEAST, LEAST + 1, -2, -1, 0, 1, 2, GREATEST - 1, GREATEST]
integers = st.one_of(st.sampled_from(EDGES), st.integers(-4, 4), st.integers(LEAST, GREATEST))
SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 0.1, 0.2, 0.3, 1.0, -1.0, 1.7976931348623157e308, math.inf, -math.inf]
doubles = st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=False), st.integers(-40, 40).map(lambda i: i / 10))
BANDS = [Op.BAND_LT, Op.BAND_LE]


def expected(op):
    return Op.EQ if op is Op.NE else op


def intervals(op, domain, width, probes):
    lo, hi = bounds(op, domain, width, np.array(probes, np.int64))
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


@given(op=st.sampled_from(Op), probes=st.lists(integers, max_size=4), stored=st.lists(integers), width=integers)
def test_integer_bounds_hold_exactly_the_matching_codes(op, probes, stored, width):
    neighbours = [c + d for c in probes for d in (-1, 0, 1, width, -width, width - 1, 1 - width)]
    for (lo, hi), probe in zip(intervals(op, Domain.INTEGER, width, probes), probes, strict=True):
        for code in [*stored, *(c for c in neighbours if LEAST <= c <= GREATEST)]:
            assert (lo <= code <= hi) == holds(expected(op).name, width, code, probe)


@given(
    op=st.sampled_from(Op),
    probes=st.lists(doubles, max_size=4),
    stored=st.lists(doubles),
    width=st.one_of(doubles, st.just(math.nan)),
)
def test_double_bounds_hold_exactly_the_matching_values(op, probes, stored, width):
    near = [v for p in probes for v in (p, p + width, p - width) if not math.isnan(v)]
    around = [math.nextafter(v, e) for v in near for e in (math.inf, -math.inf)]
    found = intervals(op, Domain.FLOAT, width, [fold(p) for p in probes])
    for (lo, hi), probe in zip(found, probes, strict=True):
        for value in [*stored, *near, *around, *SPECIAL]:
            assert (lo <= fold(value) <= hi) == holds(expected(op).name, width, value, probe)


@pytest.mark.parametrize("op", BANDS)
@given(probe=doubles, width=doubles)
def test_band_bounds_are_the_last_doubles_that_match(op, probe, width):
    ((lo, hi),) = intervals(op, Domain.FLOAT, width, [fold(probe)])
    if lo > hi:
        assert not holds(op.name, width, probe, probe)
        return
    for code, step in ((lo, -1), (hi, 1)):
        if fold(-math.inf) <= code + step <= fold(math.inf):
            inside, outside = unfold(code), unfold(code + step)
            assert holds(op.name, width, inside, probe)
            assert not holds(op.name, width, outside, probe)


def unfold(code):
    return np.array(code if code >= 0 else code ^ GREATEST, np.int64).view(np.float64).item()


def test_a_band_as_wide_as_its_probe_excludes_zero_though_the_guess_is_far_away():
    ((lo, _hi),) = intervals(Op.BAND_LT, Domain.FLOAT, 3.7, [fold(3.7)])
    assert lo > fold(1e-17)
    assert 3.7 - unfold(lo) < 3.7
    assert not 3.7 - unfold(lo - 1) < 3.7


@pytest.mark.parametrize("op", BANDS)
def test_a_band_wider_than_all_integers_holds_them_all(op):
    assert intervals(op, Domain.INTEGER, 2**70, EDGES) == [(LEAST, GREATEST)] * len(EDGES)
