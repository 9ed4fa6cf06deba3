"""Two thousand seeded worlds: after every one of them the output equals the oracle's as an ordered list."""

from __future__ import annotations

import os

import pytest

from spojoin.simulate.runner import run_all

SEEDS = 2_000
SLICE = 250


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("start", range(0, SEEDS, SLICE))
def test_every_seed_gives_the_output_of_the_oracle(start):
    failures = [f for f in run_all(range(start, start + SLICE), os.cpu_count() or 1) if f is not None]
    assert not failures, "\n\n".join(f.account for f in failures[:3])
