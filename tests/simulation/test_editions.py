"""A seed's world stays what it is: seeds are kept for what they found, and replayed by their number alone."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from spojoin.simulate.editions import (
    EDITION_SEEDS,
    EIGHTH,
    EIGHTH_SEEDS,
    FIFTH,
    FIFTH_SEEDS,
    FIRST,
    FOURTH,
    FOURTH_SEEDS,
    SECOND,
    SEVENTH,
    SEVENTH_SEEDS,
    SIXTH,
    SIXTH_SEEDS,
    THIRD,
    THIRD_SEEDS,
    edition_of,
)
from spojoin.simulate.machines import WIRING
from spojoin.simulate.pace import QuickRandom
from spojoin.simulate.run import shrunk
from spojoin.simulate.scenario import draw
from spojoin.simulate.world import World


def test_a_seeds_number_says_its_edition():
    assert [edition_of(seed) for seed in (0, EDITION_SEEDS - 1)] == [FIRST, FIRST]
    assert [edition_of(seed) for seed in (EDITION_SEEDS, THIRD_SEEDS - 1)] == [SECOND, SECOND]
    assert [edition_of(seed) for seed in (THIRD_SEEDS, FOURTH_SEEDS - 1)] == [THIRD, THIRD]
    assert [edition_of(seed) for seed in (FOURTH_SEEDS, FIFTH_SEEDS - 1)] == [FOURTH, FOURTH]
    assert [edition_of(seed) for seed in (FIFTH_SEEDS, SIXTH_SEEDS - 1)] == [FIFTH, FIFTH]
    assert [edition_of(seed) for seed in (SIXTH_SEEDS, SEVENTH_SEEDS - 1)] == [SIXTH, SIXTH]
    assert [edition_of(seed) for seed in (SEVENTH_SEEDS, EIGHTH_SEEDS - 1)] == [SEVENTH, SEVENTH]
    assert edition_of(EIGHTH_SEEDS) == EIGHTH


def fingerprint(seed):
    """Of all that a seed draws before anything runs; how its world goes depends on the product as well."""
    drawn = draw(seed)
    rows = [(message.offset, message.rows, message.heartbeat_us) for each in drawn.inputs.values() for message in each]
    together = str(drawn.packing.packing), drawn.repacks, drawn.instances, drawn.patience_ms
    seen = drawn.query.text, rows, drawn.config, drawn.faults, drawn.limits, together
    return hashlib.blake2b(repr(seen).encode(), digest_size=6).hexdigest()


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, "87c89602beae"),
        (7, "6841ad2f6ed2"),
        (1032700022, "04952c4d3b80"),
        (77002021, "65ad239e0538"),
        (EDITION_SEEDS + 1, "21f05dd448e6"),
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
    assert sum(second) > 1.5 * sum(first)


def test_choices_are_those_of_the_standard_generator():
    fast, standard = QuickRandom("a seed"), Random("a seed")
    assert [fast.choice(range(n)) for n in range(1, 400)] == [standard.choice(range(n)) for n in range(1, 400)]
    assert fast.random() == standard.random()
    with pytest.raises(IndexError):
        fast.choice([])
