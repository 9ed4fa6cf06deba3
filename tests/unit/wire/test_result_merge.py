"""Messages of several partitions in the order of the log."""

from __future__ import annotations

from spojoin.wire.result_merge import ResultMerge
from spojoin.wire.results import ResultProgress


class Merging:
    """A merge, and what it gave; `unread` are the partitions of which the log holds more than was taken."""

    def __init__(self, partitions: int) -> None:
        self.unread: set[int] = set()
        self._merge = ResultMerge[tuple[int, int]](partitions, lambda partition: partition not in self.unread)

    def take(self, frame: int, sinks: int, generation: int = 1, *, is_last: bool = True) -> list[tuple[int, int]]:
        """Take a frame's message in its partition; what follows now, as generations and frames."""
        found = ResultProgress(frame, 4, is_last, None, generation, sinks=sinks)
        self._merge.take(frame % sinks, found, (generation, frame))
        return list(self._merge.in_order())


def test_nothing_follows_before_the_first_message():
    assert list(ResultMerge[int](2, lambda _: True).in_order()) == []


def test_a_partition_that_is_ahead_waits_for_the_others():
    merging = Merging(3)
    assert merging.take(1, 3) == []
    assert merging.take(4, 3) == []
    assert merging.take(0, 3) == [(1, 0), (1, 1)]
    assert merging.take(2, 3) == [(1, 2)]
    assert merging.take(3, 3) == [(1, 3), (1, 4)]


def test_a_frame_in_several_messages_stays_together():
    merging = Merging(2)
    assert merging.take(0, 2, is_last=False) == [(1, 0)]
    assert merging.take(1, 2) == []
    assert merging.take(0, 2) == [(1, 0), (1, 1)]


def test_reading_begins_at_the_first_frame_that_is_kept():
    merging = Merging(2)
    merging.unread = {1}
    assert merging.take(10, 2) == []
    merging.unread = set()
    assert merging.take(7, 2) == [(1, 7)]
    assert merging.take(9, 2) == [(1, 9), (1, 10)]


def test_a_later_generation_waits_until_nothing_of_the_earlier_is_left_in_the_log():
    merging = Merging(3)
    assert merging.take(0, 2) == [(1, 0)]
    merging.unread = {1}
    assert merging.take(0, 3, generation=2) == []
    assert merging.take(1, 2) == [(1, 1)]
    merging.unread = set()
    assert merging.take(1, 3, generation=2) == [(2, 0), (2, 1)]
    assert merging.take(2, 3, generation=2) == [(2, 2)]


def test_a_late_position_of_an_earlier_generation_holds_nothing_up():
    merging = Merging(2)
    merging.take(0, 2)
    merging.take(1, 2)
    assert merging.take(0, 2, generation=2) == [(2, 0)]
    assert merging.take(3, 2, is_last=False) == []
    assert merging.take(1, 2, generation=2) == [(2, 1)]


class MergingRows:
    """A merge of two partitions that have rows by key, and what it gave."""

    def __init__(self) -> None:
        self.unread: set[int] = set()
        self._merge = ResultMerge[tuple[int, int, int]](2, lambda partition: partition not in self.unread)

    def take(
        self, partition: int, frame: int, seq: int | None, row: int = 0, *, is_last: bool = False
    ) -> list[tuple[int, int, int]]:
        """Take a partition's next row, or a message without rows; what follows now, as frames, answers and rows."""
        found = ResultProgress(frame, 4, is_last, seq, 1, row=None if seq is None else row, sinks=2, by_key=True)
        self._merge.take(partition, found, (frame, -1 if seq is None else seq, row))
        return list(self._merge.in_order())


def test_rows_by_key_follow_once_all_partitions_have_the_frame():
    merging = MergingRows()
    assert merging.take(0, 0, 5, 0) == []
    assert merging.take(0, 0, 5, 2, is_last=True) == []
    assert merging.take(1, 0, 4) == []
    assert merging.take(1, 0, 5, 1, is_last=True) == [(0, 4, 0), (0, 5, 0), (0, 5, 1), (0, 5, 2)]


def test_a_partition_without_rows_of_its_keys_shows_that_it_has_the_frame():
    merging = MergingRows()
    assert merging.take(1, 0, None, is_last=True) == []
    assert merging.take(1, 1, 8, is_last=True) == []
    assert merging.take(0, 0, 6, is_last=True) == [(0, -1, 0), (0, 6, 0)]
    assert merging.take(0, 1, 9, is_last=True) == [(1, 8, 0), (1, 9, 0)]


def test_a_reader_that_begins_while_rows_come_takes_what_each_partition_still_has():
    merging = MergingRows()
    assert merging.take(0, 7, 20, is_last=True) == []
    assert merging.take(1, 5, 16, 3, is_last=True) == [(5, 16, 3)]
    assert merging.take(1, 6, None, is_last=True) == [(6, -1, 0)]
    assert merging.take(1, 7, 19, is_last=True) == [(7, 19, 0), (7, 20, 0)]


def test_a_repeated_position_by_key_does_not_hold_up_the_next_generation():
    merge = ResultMerge[int](2, lambda _: True)
    for partition in (0, 1):
        merge.take(partition, ResultProgress(0, 4, True, None, 1, sinks=2, by_key=True), 0)
        merge.take(partition, ResultProgress(1, 0, False, None, 1, sinks=2, by_key=True), 1)
    assert list(merge.in_order()) == [0, 0]
    merge.take(0, ResultProgress(0, 4, True, None, 2), 2)
    assert list(merge.in_order()) == [2]
