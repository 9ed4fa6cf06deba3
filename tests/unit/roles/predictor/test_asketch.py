from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.kernels.asketch import ASketch

codes = st.one_of(st.integers(0, 12), st.integers(-(2**63), 2**63 - 1))
streams = st.lists(st.lists(codes, max_size=60), max_size=6)


def filled(frames, **sizes):
    sketch = ASketch(**sizes)
    for frame in frames:
        sketch.add(np.array(frame, np.int64))
    return sketch


@given(streams, st.integers(1, 4), st.integers(0, 4))
@settings(deadline=None)
def test_never_underestimates(frames, items, bits):
    sketch = filled(frames, filter_items=items, width_bits=bits + 1)
    counts = Counter(code for frame in frames for code in frame)
    keys = np.array(list(counts), np.int64)
    assert all(sketch.estimate(keys) >= list(counts.values()))
    assert sketch.total == counts.total()


@given(st.lists(st.lists(st.integers(0, 7), max_size=60), max_size=6))
@settings(deadline=None)
def test_counts_exactly_while_all_keys_fit_the_filter(frames):
    counts = Counter(code for frame in frames for code in frame)
    keys, found = filled(frames, filter_items=8).frequent()
    assert dict(zip(keys.tolist(), found.tolist(), strict=True)) == counts


@given(streams)
@settings(deadline=None)
def test_frame_boundaries_do_not_matter(frames):
    whole = filled([[code for frame in frames for code in frame]], filter_items=3, width_bits=2)
    pieces = filled(frames, filter_items=3, width_bits=2)
    assert [a.tolist() for a in whole.frequent()] == [a.tolist() for a in pieces.frequent()]


@given(streams, st.integers(1, 4))
@settings(deadline=None)
def test_halving_keeps_at_least_half_and_counting_goes_on(frames, items):
    sketch = ASketch(filter_items=items, width_bits=2)
    weights = Counter()
    for frame in frames:
        sketch.add(np.array(frame, np.int64))
        sketch.halve()
        weights.update(frame)
        weights = Counter({key: count / 2 for key, count in weights.items()})
    keys = np.array(list(weights), np.int64)
    assert all(sketch.estimate(keys) >= list(weights.values()))


def test_finds_the_hot_keys_of_a_skewed_stream():
    rng = np.random.default_rng(3)
    cold = rng.integers(0, 2**62, 60_000)
    stream = np.where(rng.random(60_000) < 0.4, rng.integers(-8, 0, 60_000), cold)
    sketch = ASketch()
    sketch.add(stream)
    keys, counts = sketch.hot(1 / 256)
    assert keys.tolist() == list(range(-8, 0))
    exact = Counter(stream.tolist())
    assert counts.tolist() == pytest.approx([exact[k] for k in keys.tolist()], rel=0.05)


def test_a_key_that_becomes_hot_later_displaces_a_cold_one():
    sketch = filled([list(range(100)), [7777] * 500], filter_items=4)
    keys, counts = sketch.hot(0.1)
    assert keys.tolist() == [7777]
    assert counts[0] >= 500


def test_no_key_is_hot_before_its_second_tuple():
    assert filled([[1]]).hot(0.0)[0].tolist() == []
    assert filled([[1, 1, 2]]).hot(0.0)[0].tolist() == [1]
    assert filled([]).hot(0.0)[0].tolist() == []


def test_halving_cools_down_old_keys():
    sketch = filled([[1] * 100 + [2] * 10])
    for _ in range(4):
        sketch.halve()
        sketch.add(np.array([2] * 20 + list(range(100, 140)), np.int64))
    assert sketch.estimate(np.array([1, 2]))[0] < sketch.estimate(np.array([1, 2]))[1]
