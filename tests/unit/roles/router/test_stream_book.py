"""What a router restores of a stream from batches, where its frames come later, and how large batches get."""

from __future__ import annotations

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.stream_book import StreamBook, batches_then_tail
from spojoin.windows import RowWindow


def tail(first, *values):
    made = Tail(first)
    made.append(np.array(values, np.int64))
    return made


def held(found):
    return found.first, found.held.tolist()


def test_batches_stand_before_the_logs_tail():
    restored = [(4, np.array([4, 5], np.int64)), (2, np.array([2, 3], np.int64))]
    assert held(batches_then_tail(restored, tail(6, 6, 7))) == (2, [2, 3, 4, 5, 6, 7])


def test_what_batches_and_frames_both_hold_counts_once():
    assert held(batches_then_tail([(2, np.array([2, 3, 4], np.int64))], tail(3, 3, 4, 5))) == (2, [2, 3, 4, 5])


def test_a_batch_that_was_read_before_its_frames_doesnt_hold_their_tuples():
    restored = [(2, np.array([2, 3, 4, 5], np.int64)), (6, np.array([6, 7], np.int64))]
    assert held(batches_then_tail(restored, tail(3, 3, 4))) == (2, [2, 3, 4])


def test_a_stray_batch_of_earlier_tuples_is_left_out():
    assert held(batches_then_tail([(0, np.array([0, 1], np.int64))], tail(5, 5))) == (5, [5])


def test_a_batch_that_is_missing_among_later_ones_is_in_the_tail():
    later = (2, np.array([2, 3], np.int64))
    assert held(batches_then_tail([later], tail(0, 0, 1, 2, 3, 4))) == (0, [0, 1, 2, 3, 4])
    assert held(batches_then_tail([later, (0, np.array([0], np.int64))], tail(1, 1, 2, 3))) == (0, [0, 1, 2, 3])


def test_a_batch_that_is_larger_than_batches_are_now_ends_with_the_next_row():
    book = StreamBook(RowWindow(30, 10), RouterConfig("r", batch_tuples=8))
    assert book.batch_room() == 5
    book.count = 7
    assert book.batch_room() == 1
    assert book.seals_after(0, 1, 0, ends_slide=False)
