"""The stream-aware index against the scan, over streams whose hot keys change."""

import dataclasses

import numpy as np
import pytest

from spojoin.published.methods.catalog import method
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import Check, Searches, SideSpec

LENGTH, COUNT, CHUNK = 1_500, 9_000, 700
DIRECTIONS = ((Check(0, False, False), Check(1, True, False)), (Check(1, False, False), Check(0, False, False)))


def codes():
    """Half of the tuples have one of three keys, others in each third of the stream; the rest are spread."""
    rng = np.random.default_rng(3)
    hot = np.arange(COUNT) * 3 // COUNT * 100 + rng.integers(0, 3, COUNT)
    keys = np.where(rng.random(COUNT) < 0.5, hot, rng.integers(-2_000, 2_000, COUNT))
    return np.stack([keys, rng.integers(-40, 40, COUNT)])


def run(name, options, lists):
    """What all probes found, and the side itself."""
    chosen = dict(method(name, options).options)
    side = SIDES[name](dataclasses.replace(SideSpec(2, DIRECTIONS, False, LENGTH, 1, lists), options=chosen))
    rng = np.random.default_rng(7)
    stored, low = codes(), rng.integers(-100, 300, (2, 2, COUNT))
    upper = np.arange(COUNT)
    results = []
    for begin in range(0, COUNT, CHUNK):
        part = slice(begin, begin + CHUNK)
        directions = [Searches(lo[:, part], lo[:, part] + 60) for lo in low]
        results += side.take(stored[:, part], directions, np.maximum(upper[part] - LENGTH, 0), upper[part])
    return results, side


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "counts"])
@pytest.mark.parametrize(
    "options",
    [{}, {"chain": "1", "choices": "1"}, {"chain": "40", "hot_share": "0"}, {"hot_share": "1", "partitions": "3"}],
    ids=str,
)
def test_keys_may_change_their_temperature(options, lists):
    expected, _ = run("scan", {}, lists)
    found, _ = run("sta", options, lists)
    for got, want in zip(found, expected, strict=True):
        assert (got.counts == want.counts).all()
        if lists:
            assert (got.partners == want.partners).all()


def test_hot_keys_move_to_the_chain_when_they_cool_down():
    _, side = run("sta", {"hot_share": "0.1"}, False)
    assert side.counters.more["to_hot"] >= 9
    assert side.counters.more["to_cold"] > 0
    _, cold = run("sta", {"hot_share": "1"}, False)
    assert cold.counters.more["to_hot"] == cold.counters.more["to_cold"] == 0


def test_of_two_choices_the_less_loaded_balances_better_than_one():
    def spread(choices):
        _, side = run("sta", {"partitions": "10", "hot_share": "1", "choices": choices}, False)
        return np.ptp(side._load[2:])

    assert spread("2") < spread("1")
