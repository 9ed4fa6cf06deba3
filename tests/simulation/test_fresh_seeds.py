"""Each run uses other seeds. The summary always names the first one, so that a run can be repeated."""

from __future__ import annotations

import os

import pytest

from loadgen.simulate.campaign import outcomes
from loadgen.simulate.coverage import Coverage

SEEDS = 200


@pytest.mark.timeout(1_200)
def test_fresh_seeds_give_the_output_of_the_oracle(request):
    start = request.config.getoption("--fresh-from")
    found = list(outcomes(range(start, start + SEEDS), os.cpu_count() or 1))
    failed = {command: failure for outcome in found for command, failure in outcome.failed.items()}
    assert not failed, "\n\n".join([*failed, *(failure.account for failure in list(failed.values())[:3])])
    coverage = Coverage()
    for outcome in found:
        coverage.merge(outcome.coverage)
    assert sum(len(outcome.seeds) for outcome in found) == SEEDS
    assert coverage.seeds["P2 epochs", "barrier claims the log"] == SEEDS
