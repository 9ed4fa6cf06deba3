"""Which keys frames spread: they follow from plans and from the log's last frame, whichever router wrote it."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.query.load import parse_query
from spojoin.roles.router import spread_keys
from spojoin.roles.router.spread_keys import SpreadKeys
from spojoin.wire.records import STILL_HOT, HotKeys, SpreadKey
from tests.support.frames import make_frame, make_slice

QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a = r.a WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
)


def plan(*codes):
    return HotKeys(1, 0, {(0, 0): (np.array(codes, np.int64), np.ones(len(codes), np.int64))})


def next_frame(keys, first, lower=0, *, is_answered=True):
    """Writes a frame whose only tuple has index `first`, in a window from `lower` on; returns its spread keys.

    is_answered: whether results then cover it
    """
    piece = make_slice([[0]], first, lower=np.array([lower]))
    found = keys.of_next_frame([piece])
    frame = make_frame([piece], spread=found)
    keys.follow_frame(frame)
    if is_answered:
        keys.forget_unreached(frame.frame_id + 1)
    return list(found)


def test_a_key_is_spread_from_the_frame_on_that_follows_a_plan():
    keys = SpreadKeys(QUERY, spreads=True)
    assert next_frame(keys, 0) == []
    keys.accept_hot_keys(plan(7, -2))
    expected = [SpreadKey(0, -2, 5, STILL_HOT), SpreadKey(0, 7, 5, STILL_HOT)]
    assert next_frame(keys, 5) == next_frame(keys, 6) == expected


def test_a_cooled_key_stays_until_no_window_reaches_its_range_and_is_not_hot_again_before():
    keys = SpreadKeys(QUERY, spreads=True)
    keys.accept_hot_keys(plan(7))
    next_frame(keys, 5)
    keys.accept_hot_keys(plan())
    cooled = [SpreadKey(0, 7, 5, 8)]
    assert next_frame(keys, 8) == cooled
    keys.accept_hot_keys(plan(7))
    assert next_frame(keys, 9, lower=7) == next_frame(keys, 10, lower=8) == cooled
    assert next_frame(keys, 11, lower=8) == [SpreadKey(0, 7, 11, STILL_HOT)]


def test_a_key_stays_while_a_frame_is_under_way_whose_windows_reach_its_range():
    keys = SpreadKeys(QUERY, spreads=True)
    keys.accept_hot_keys(plan(7))
    next_frame(keys, 5)
    keys.accept_hot_keys(plan())
    cooled = next_frame(keys, 8)
    assert next_frame(keys, 11, lower=8, is_answered=False) == next_frame(keys, 12, lower=8) == cooled
    assert next_frame(keys, 13, lower=8) == []


def test_a_key_that_cools_before_any_tuple_is_forgotten():
    keys = SpreadKeys(QUERY, spreads=True)
    keys.accept_hot_keys(plan(7))
    next_frame(keys, 5)
    keys.accept_hot_keys(plan())
    assert next_frame(keys, 5) == []


def test_a_router_goes_on_from_the_last_frame():
    spread = (SpreadKey(0, 3, 2, STILL_HOT), SpreadKey(0, 4, 1, 9))
    keys = SpreadKeys(QUERY, spreads=True)
    keys.follow_frame(make_frame([make_slice([[0]], 9)], spread=spread))
    assert next_frame(keys, 10) == list(spread)
    keys.accept_hot_keys(plan(5))
    assert next_frame(keys, 11) == [SpreadKey(0, 3, 2, 11), spread[1], SpreadKey(0, 5, 11, STILL_HOT)]


def test_a_router_of_columns_by_batch_lets_all_keys_cool_down():
    keys = SpreadKeys(QUERY, spreads=False)
    keys.follow_frame(make_frame([make_slice([[0]], 9)], spread=(SpreadKey(0, 3, 2, STILL_HOT),)))
    keys.accept_hot_keys(plan(3, 5))
    assert next_frame(keys, 10) == [SpreadKey(0, 3, 2, 10)]
    assert next_frame(keys, 20, lower=10) == [SpreadKey(0, 3, 2, 10)]
    assert next_frame(keys, 21, lower=10) == []


def test_a_frame_names_a_limited_number_of_keys(monkeypatch):
    monkeypatch.setattr(spread_keys, "SPREAD_MAX", 3)
    keys = SpreadKeys(QUERY, spreads=True)
    keys.accept_hot_keys(plan(1, 2))
    next_frame(keys, 0)
    keys.accept_hot_keys(plan(2, 3, 4, 5))
    assert [key.code for key in next_frame(keys, 4)] == [1, 2, 3]


@pytest.mark.parametrize("slot", [1, 2])
def test_hot_keys_of_other_columns_are_no_matter(slot):
    keys = SpreadKeys(QUERY, spreads=True)
    keys.accept_hot_keys(HotKeys(1, 0, {(0, slot): (np.array([7]), np.array([1]))}))
    assert next_frame(keys, 5) == []
