"""Thousands of tuples, for trees with levels and many batches: every method finds what the scan finds."""

import dataclasses

import numpy as np
import pytest

from spojoin.published.methods.catalog import method
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.scan import Scan
from spojoin.published.methods.side import Check, Searches, SideSpec

TUPLES, CHUNK, LENGTH, SLIDE = 12_000, 700, 4_000, 1_000
NAMES = sorted(SIDES.keys() - {"scan"})


def searches(rng, codes, domain, checks):
    lo, hi = np.empty((2, len(checks), codes.shape[1]), np.int64)
    for k, check in enumerate(checks):
        width = 0 if check.equality else int(rng.integers(0, domain))
        lo[k], hi[k] = codes[check.column] - width, codes[check.column] + width
    return Searches(lo, hi)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("domain", [5, 100_000])
def test_trees_with_levels_find_what_the_scan_finds(name, lists, domain):
    # A hash table needs an equality in each direction; trees should see wide ranges.
    first = Check(0, negated=False, equality=name == "hash")
    second, outside = Check(1, negated=False, equality=False), Check(0, negated=True, equality=False)
    directions = ((first, second), (second, first) if name == "hash" else (second, outside))
    spec = SideSpec(2, directions, False, LENGTH, SLIDE, lists, dict(method(name, {}).options))
    side = SIDES[name](spec)
    scan, rng = Scan(dataclasses.replace(spec, options={})), np.random.default_rng(domain)
    for first in range(0, TUPLES, CHUNK):
        codes = rng.integers(0, domain, (2, CHUNK))
        upper = np.arange(first, first + CHUNK)
        lower = np.maximum(-(-upper // SLIDE) * SLIDE - LENGTH, 0)
        # Few probes per chunk, since they have many partners.
        chosen = np.sort(rng.choice(CHUNK, 40, replace=False))
        asked = [searches(rng, codes[:, chosen], domain, checks) for checks in directions]
        ours, theirs = (each.take(codes, asked, lower[chosen], upper[chosen]) for each in (side, scan))
        for found, expected in zip(ours, theirs, strict=True):
            assert found.counts.tolist() == expected.counts.tolist()
            if lists:
                assert found.offsets.tolist() == expected.offsets.tolist()
                assert np.array_equal(found.partners, expected.partners)
