"""Results in order, each once, across the generations of a query."""

from __future__ import annotations

from spojoin.wire.results import ResultProgress, ResultSequence


def taken(*records: tuple[int, int, int, int, bool]) -> list[bool]:
    """Which of the (generation, frame, begin, end, is the last) messages the chain takes."""
    chain = ResultSequence()
    return [
        chain.accepts(begin, ResultProgress(frame, end, is_last, None, generation))
        for generation, frame, begin, end, is_last in records
    ]


def test_a_new_generation_begins_at_its_first_frame():
    assert taken((1, 0, 0, 4, True), (1, 1, 0, 4, True), (2, 0, 0, 3, True), (2, 1, 0, 3, True)) == [True] * 4


def test_a_new_generation_is_not_joined_midway():
    assert taken((1, 7, 0, 4, True), (2, 1, 0, 4, True), (2, 0, 0, 3, True)) == [True, False, True]


def test_what_a_replaced_sink_still_writes_is_skipped():
    assert taken((1, 0, 0, 4, True), (2, 0, 0, 3, True), (1, 1, 0, 4, True), (2, 1, 0, 3, True)) == [
        True, True, False, True,
    ]  # fmt: skip


def test_generations_may_be_skipped():
    assert taken((1, 0, 0, 4, True), (3, 0, 0, 3, True), (2, 0, 0, 3, True)) == [True, True, False]


def test_a_reader_may_begin_anywhere_in_its_first_generation():
    assert taken((2, 9, 0, 4, True), (2, 10, 0, 4, True), (2, 10, 0, 4, True)) == [True, True, False]


def test_each_generation_counts_probes_from_zero():
    chain = ResultSequence()
    assert chain.accepts(0, ResultProgress(0, 0, False, 40, 1))
    assert chain.accepts(0, ResultProgress(0, 2, True, 41, 1))
    assert chain.accepts(0, ResultProgress(0, 0, False, 3, 2))
    assert not chain.accepts(0, ResultProgress(0, 0, False, 3, 2))
