"""PPOIJ's patterns: their law for tuples of one key, turns within a key, and bugs that the simulator must find."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.papers.layouts import machine as registry
from loadgen.papers.layouts.calibration import frequencies
from loadgen.papers.layouts.ppoij import Groups, Hybrid, homes, split
from loadgen.simulate.papers import run_layout
from loadgen.simulate.scenario import draw
from spojoin.errors import QueryError
from spojoin.evaluation.choices import chosen_layout, layout
from spojoin.query.load import parse_query
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import NO_GUIDANCE
from tests.support.layout_frames import frame_of, shares

STREAMS = "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
WINDOW = " WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
SELF = parse_query(f"{STREAMS}sql: SELECT * FROM s AS l JOIN s AS r ON l.a = r.a{WINDOW}")
CROSS = parse_query(f"{STREAMS}  t: {{schema: {{a: int}}}}\nsql: SELECT * FROM s AS l JOIN t AS r ON l.a = r.a{WINDOW}")
#: Options with which few tuples suffice for groups of several workers.
EAGER = {"calibration": "8", "theta": "1"}


@st.composite
def logs(draw):
    """Consecutive frames; from one of them on they carry frequencies of arbitrary tuples."""
    query = draw(st.sampled_from([SELF, CROSS]))
    counted = [Counter(draw(st.lists(st.integers(-2, 2), min_size=1, max_size=20))) for _ in query.streams]
    found, known_from = frequencies(counted), draw(st.integers(0, 4))
    seq, firsts, frames = 0, [0] * len(query.streams), []
    for number in range(4):
        streams = draw(st.lists(st.integers(0, len(query.streams) - 1), max_size=9))
        codes = [draw(st.integers(-3, 3)) for _ in streams]
        frame = frame_of(streams, codes, firsts=firsts, frame_id=number, first_seq=seq)
        guidance = found.packed() if number >= known_from else NO_GUIDANCE
        frames.append(dataclasses.replace(frame, guidance=guidance))
        seq += len(streams)
        firsts = [first + streams.count(stream) for stream, first in enumerate(firsts)]
    return query, frames


def pattern(name, query, **options):
    return registry.LAYOUTS[name](dataclasses.replace(query, layout=layout(name, options)))


def keys(frames):
    """Each tuple's key, in order."""
    found = []
    for frame in frames:
        placed = {p: c for piece in frame.slices for p, c in zip(piece.positions.tolist(), piece.codes[0], strict=True)}
        found += [int(placed[position]) for position in sorted(placed)]
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [("kp", {}), ("dp", {}), ("hp", EAGER), ("hp", {**EAGER, "balance": "tuples"}), ("hp", {"max_splitting": "2"})],
)
@given(log=logs(), workers=st.integers(1, 6))
def test_one_worker_meets_any_two_tuples_of_a_key(name, options, log, workers):
    """Also where the earlier one came before the frequencies were known, or under another worker count."""
    query, frames = log
    found, key = shares(pattern(name, query, **options), frames, len(query.streams), workers), keys(frames)
    for t, (stream, stored, asked) in enumerate(found):
        assert len(stored) == 1
        assert stored <= asked
        for u in range(t):
            if key[u] == key[t] and (query.is_self or found[u][0] != stream):
                assert len(found[u][1] & asked) == 1


def test_key_partitioning_uses_one_worker_a_key_and_data_parallel_all():
    frame = frame_of([0] * 60, [i % 20 for i in range(60)])
    asked = {name: shares(pattern(name, SELF), [frame], 1, 4) for name in ("kp", "dp")}
    assert all(len(who) == 1 for _, _, who in asked["kp"])
    assert all(who == {0, 1, 2, 3} for _, _, who in asked["dp"])
    assert len({frozenset(who) for _, _, who in asked["kp"]}) == 4


def test_a_frequent_key_gets_more_workers_and_a_rare_one_keeps_one():
    counts = Counter({1: 700} | dict.fromkeys(range(2, 32), 10))
    groups = split(frequencies([counts]), 4, 1.05, 99, has_pairs=True)
    sizes = groups.sizes[groups.items(np.array([1, 2, 31, 555]))].tolist()
    assert sizes[0] == 4
    assert sum(sizes[1:]) < 2 * 3
    at_home = Groups.of_homes(4)
    for code in (1, 2, 31, 555):
        item = np.array([code])
        home = int(homes(item, 4)[0])
        assert at_home.has(at_home.items(item), home).all()
        assert groups.has(groups.items(item), home).all()


@pytest.mark.parametrize("name", ["kp", "hp"])
@pytest.mark.parametrize("condition", ["l.a < r.a", "l.a = r.b AND l.b = r.a"])
def test_a_pattern_that_partitions_by_a_key_needs_one(name, condition):
    text = f"{STREAMS}sql: SELECT * FROM s AS l JOIN s AS r ON {condition}{WINDOW}"
    with pytest.raises(QueryError, match=rf"layout '{name}' spreads tuples by a key.*such as 'dp'"):
        parse_query(text + f"layout: {name}\n")
    with pytest.raises(QueryError, match=r"l\.key = r\.key"):
        chosen_layout(parse_query(text), name, 2, ())


# --- in the simulator -------------------------------------------------------------------------------------------------

KEYED = [seed for seed in range(150) if SearchPlan(draw(seed).query).key_slots is not None]
#: Layouts by name and options; the simulator's worlds have few tuples.
CHOICES = [layout("kp", {}), layout("dp", {}), layout("hp", EAGER), layout("hp", {**EAGER, "balance": "tuples"})]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_patterns_survive_what_a_seed_brings(choice):
    for seed in KEYED[:8]:
        failure = run_layout(seed, choice)
        assert failure is None, failure.account


def is_found():
    return any(run_layout(seed, layout("hp", EAGER)) is not None for seed in KEYED)


class Moving(Hybrid):
    """Groups that forget where their keys were before."""

    def _split(self, found, workers):
        groups = super()._split(found, workers)
        return Groups(groups._codes, [[(m + 1) % workers] for m in homes_of(groups)], workers)


def homes_of(groups):
    return [int(group) for group in groups._members[groups._first]]


def test_groups_that_leave_their_home_are_found(monkeypatch):
    monkeypatch.setitem(registry.LAYOUTS, "hp", Moving)
    assert is_found()
