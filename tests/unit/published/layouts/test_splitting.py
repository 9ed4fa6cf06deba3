"""Algorithm 1 of PPOIJ: loads follow from the groups, keys only gain workers, and it ends balanced if it can."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.published.layouts.splitting import Splitting


def loads_of(weights, groups, workers):
    """The definition: an item's weight, in units of the mean worker's, shared evenly by its workers."""
    loads = np.zeros((len(weights), workers))
    for row, each in enumerate(weights):
        for item, group in enumerate(groups):
            for worker in group:
                loads[row, worker] += each[item] / len(group) * workers / each.sum()
    return loads


@st.composite
def problems(draw):
    workers, items = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    rows = draw(st.lists(st.lists(st.integers(0, 9), min_size=items, max_size=items), min_size=1, max_size=2))
    weights = np.array(rows, np.float64)
    weights[:, 0] += 1
    homes = draw(st.lists(st.integers(0, workers - 1), min_size=items, max_size=items))
    return weights, homes, workers, draw(st.sampled_from((1.0, 1.05, 1.5))), draw(st.sampled_from((1, 2, 99)))


@given(problems(), st.booleans())
def test_groups_grow_from_their_homes_and_loads_follow(problem, in_turn):
    weights, homes, workers, theta, most = problem
    splitting = Splitting(*problem)
    (splitting.in_turn if in_turn else splitting.by_weight)()
    assert [group[0] for group in splitting.groups] == homes
    assert all(len(set(group)) == len(group) <= min(workers, most) or len(group) == 1 for group in splitting.groups)
    np.testing.assert_allclose(splitting.loads, loads_of(weights, splitting.groups, workers), atol=1e-9)
    full = all(len(group) == min(workers, most) for group in splitting.groups)
    if in_turn and not splitting.is_balanced:
        over = splitting.loads > theta
        stuck = [g for g in splitting.groups if len(g) < min(workers, most) and over[:, g].any()]
        assert full or not stuck, "it gave up while a key of a loaded worker could be split"


@pytest.mark.parametrize("run", [Splitting.in_turn, Splitting.by_weight])
def test_one_key_needs_all_workers(run):
    splitting = Splitting(np.array([[1.0]]), [2], 4, 1.05, 99)
    run(splitting)
    assert sorted(splitting.groups[0]) == [0, 1, 2, 3]
    assert splitting.is_balanced


@pytest.mark.parametrize("run", [Splitting.in_turn, Splitting.by_weight])
def test_the_papers_example_splits_the_heavy_key_alone(run):
    """Figure 2: keys of 60, 20 and 20 % at two replicas."""
    splitting = Splitting(np.array([[0.6, 0.2, 0.2]]), [0, 1, 1], 2, 1.25, 99)
    run(splitting)
    assert splitting.groups == [[0], [1], [1]], "1.2 times the mean is balanced enough"
    splitting = Splitting(np.array([[0.6, 0.2, 0.2]]), [0, 1, 1], 2, 1.1, 99)
    run(splitting)
    assert splitting.groups[0] == [0, 1]


def test_in_turn_splits_the_heaviest_keys_first_and_leaves_light_ones_alone():
    weights = np.array([[5.0, 4.0, 1.0, 1.0, 1.0]])
    splitting = Splitting(weights, [0, 0, 1, 2, 3], 4, 1.5, 99)
    splitting.in_turn()
    assert [len(group) for group in splitting.groups[2:]] == [1, 1, 1]
    assert len(splitting.groups[0]) >= len(splitting.groups[1]) > 1


def test_an_idle_worker_is_not_balanced():
    splitting = Splitting(np.array([[1.0, 1.0]]), [0, 1], 3, 3.0, 99)
    assert not splitting.is_balanced
    splitting.by_weight()
    assert (splitting.loads > 0).all()


def test_splitting_has_a_limit():
    splitting = Splitting(np.array([[1.0]]), [0], 4, 1.0, 2)
    splitting.by_weight()
    assert (len(splitting.groups[0]), splitting.is_balanced) == (2, False)
