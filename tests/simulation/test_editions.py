"""A seed's world stays what it is: seeds are kept for what they found, and replayed by their number alone."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from spojoin.simulate.editions import EDITION_SEEDS, FIRST, SECOND, edition_of
from spojoin.simulate.machines import WIRING
from spojoin.simulate.pace import QuickRandom
from spojoin.simulate.run import shrunk
from spojoin.simulate.scenario import draw
from spojoin.simulate.world import World


def test_a_seeds_number_says_its_edition():
    assert [edition_of(seed) for seed in (0, EDITION_SEEDS - 1)] == [FIRST, FIRST]
    assert [edition_of(seed) for seed in (EDITION_SEEDS, 1 << 62)] == [SECOND, SECOND]


def fingerprint(seed):
    scenario = draw(seed)
    with shrunk(scenario):
        outcome = World(scenario, WIRING).run()
    seen = outcome.steps, outcome.faults, [frame.link for frame in outcome.frames.accepted], outcome.results.rows
    return hashlib.blake2b(repr(seen).encode(), digest_size=6).hexdigest()


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, "79057c638faf"),
        (7, "1872e4979d25"),
        (1032700022, "f850d6b191c9"),
        (77002021, "93f90db48f53"),
        (EDITION_SEEDS + 1, "fd8c5bc47c39"),
    ],
)
def test_worlds_are_those_of_their_seeds(seed, expected):
    assert fingerprint(seed) == expected


def answered_in_storm(seed):
    scenario = draw(seed)
    with shrunk(scenario):
        world = World(scenario, WIRING)
        world._storm(2_000)
    return sum(frame.count for frame in world.frames.accepted) / max(1, sum(1 for _ in scenario.rows()))


def test_the_storm_of_the_second_edition_reaches_most_rows():
    first = [answered_in_storm(seed) for seed in range(20)]
    second = [answered_in_storm(EDITION_SEEDS + seed) for seed in range(20)]
    assert sum(second) > 2 * sum(first)


def test_choices_are_those_of_the_standard_generator():
    fast, standard = QuickRandom("a seed"), Random("a seed")
    assert [fast.choice(range(n)) for n in range(1, 400)] == [standard.choice(range(n)) for n in range(1, 400)]
    assert fast.random() == standard.random()
    with pytest.raises(IndexError):
        fast.choice([])
