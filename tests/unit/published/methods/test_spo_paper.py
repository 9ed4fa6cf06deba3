"""SPO-Join as published against the scan: all batch sizes, trees of several levels, windows that cut batches."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from spojoin.published.methods.catalog import method
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import Check, Searches, SideSpec

LENGTH, SLIDE, COUNT, CHUNK = 1_500, 1, 4_000, 350
BAND, OTHER = Check(0, False, False), Check(1, True, False)
DIRECTIONS = {
    "one": ((BAND,),),
    "two": ((BAND, OTHER), (OTHER, BAND)),
    "three, columns shared": ((BAND, OTHER, Check(0, True, True)), (Check(1, False, False), BAND)),
}


def run(name, spec, options):
    """Counts and partners of all probes, and the side."""
    side = SIDES[name](dataclasses.replace(spec, options=dict(method(name, options).options)))
    rng = np.random.default_rng(7)
    codes = rng.integers(-40, 40, (2, COUNT))
    searches = [rng.integers(-45, 45, (2, len(tests), COUNT)) for tests in spec.directions]
    upper = np.arange(COUNT)
    lower = np.maximum(upper - LENGTH, 0)
    results = []
    for begin, end in pairwise([*range(0, COUNT, CHUNK), COUNT]):
        directions = [Searches(lo[:, begin:end], (lo + abs(width) // 4)[:, begin:end]) for lo, width in searches]
        results.append(side.take(codes[:, begin:end], directions, lower[begin:end], upper[begin:end]))
    return results, side


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "counts"])
@pytest.mark.parametrize("directions", DIRECTIONS.values(), ids=DIRECTIONS.keys())
@pytest.mark.parametrize("delta", [1, 3, 64, 700, 2_000])
def test_every_size_of_batch_finds_what_the_scan_finds(delta, directions, lists):
    spec = SideSpec(2, directions, False, LENGTH, SLIDE, lists)
    expected, _ = run("scan", spec, {})
    found, side = run("spo_paper", spec, {"delta": str(delta)})
    for chunk, wanted in zip(found, expected, strict=True):
        for got, want in zip(chunk, wanted, strict=True):
            assert (got.counts == want.counts).all()
            if lists:
                assert (got.partners == want.partners).all()
                assert (got.offsets == want.offsets).all()
    assert side.counters.merges == COUNT // delta
    assert side.tuples <= LENGTH + CHUNK + 2 * delta


def test_the_default_batch_is_the_slide_within_bounds():
    def batch(length, slide, is_time=False):
        options = dict(method("spo_paper", {}).options)
        return SIDES["spo_paper"](SideSpec(1, ((BAND,),), is_time, length, slide, False, options))._delta

    assert batch(100_000, 10_000) == 10_000
    assert batch(64_000, 1) == 4_000
    assert batch(10_000, 1) == 2_048
    assert batch(1_000, 1) == 250
    assert batch(10**7, 10**6) == 1 << 16
    assert batch(10**9, 10**6, is_time=True) == 4_096
