"""What generations have answered is the union of what each had passed, not what the furthest alone had."""

from __future__ import annotations

import numpy as np
import orjson

from spojoin.protocol.answered import Answered, PassedOrder

SOURCE = (0, 0)


def passed(time: int, read: int, late: tuple[int, ...] = ()) -> PassedOrder:
    return PassedOrder((time, *SOURCE, 9, 0), {SOURCE: (read, 0)}, frozenset((*SOURCE, offset, 0) for offset in late))


def rows_of(answered: Answered, times: list[int]) -> list[bool]:
    """Of single rows of one input with offsets 0, 1, ..., whether they were answered."""
    offsets, rows = np.arange(len(times)), np.zeros(len(times), np.int64)
    return answered.rows(*SOURCE, offsets, rows, np.array(times)).tolist()


def after(*generations: PassedOrder) -> Answered:
    found = Answered()
    for each in generations:
        found = Answered.from_takeover({}, {}, found.saved_with(each))
    return found


def test_a_generation_that_went_further_but_read_less_does_not_hide_an_earlier_one():
    answered = after(passed(10, read=3), passed(20, read=1))
    assert len(answered.passed) == 2
    # The last row had been read by the first generation only, which had not got as far as its time.
    assert rows_of(answered, [20, 10, 15]) == [True, True, False]


def test_a_generation_that_read_further_behind_the_frontier_counts_as_well():
    answered = after(passed(20, read=1), passed(10, read=3))
    assert rows_of(answered, [20, 20, 10, 10]) == [True, False, True, False]


def test_what_is_covered_is_not_kept():
    assert after(passed(10, read=1), passed(20, read=2)).passed == (passed(20, read=2),)
    assert after(passed(20, read=2), passed(10, read=1)).passed == (passed(20, read=2),)


def test_a_row_that_one_generation_refused_and_another_took_was_answered():
    answered = after(passed(20, read=2, late=(0,)), passed(10, read=2))
    assert rows_of(answered, [5, 5]) == [True, True]
    assert answered.took((*SOURCE, 0, 0))
    assert not after(passed(20, read=2, late=(0,))).took((*SOURCE, 0, 0))


def test_nothing_saved_is_nothing_passed():
    assert Answered().saved_with(None) == b""
    assert Answered.from_takeover({}, {}, b"").passed == ()


def test_one_generation_saved_as_a_router_saves_it_is_read():
    assert Answered.from_takeover({}, {}, orjson.dumps(passed(10, read=1).saved())).passed == (passed(10, read=1),)
