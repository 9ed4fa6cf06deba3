"""An instance without a seat: silent until it has caught up, then it takes the place of whoever spoke (rule P15)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, TakeOver, Trim
from spojoin.protocol.standby import UNSAID_MAX, Seat, Standby, standby_of
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Barrier, DirectionRanks, Part, Partial, Presence, Record

CHOSEN = Barrier(7, "chosen")


def partial(frame_id: int) -> Partial:
    empty = np.zeros(0, np.uint16)
    return Partial(1, frame_id, 0, (DirectionRanks(empty, empty, empty),))


class Speaker(Machine):
    """Answers each barrier with a partial of its epoch."""

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        yield Emit(Topic.PARTIALS, 0, partial(record.epoch))

    def on_chosen(self) -> Iterator[Action]:
        yield Emit(Topic.FRAMES, 0, CHOSEN)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        return [Trim(Topic.PARTIALS, 0, result_position.frame_id)]


def read(instance: Standby, *epochs: int) -> list[Action]:
    return [action for n in epochs for action in instance.on_record(Topic.FRAMES, 0, n, Barrier(n, "router"))]


def said(actions: list[Action]) -> list[object]:
    """Frames of partials, and what else was done."""
    return [a.record.frame_id if isinstance(a, Emit) and isinstance(a.record, Partial) else a for a in actions]


@pytest.fixture
def instance() -> Standby:
    return standby_of(Speaker(), None)


def test_it_is_silent_until_it_has_caught_up_and_then_says_what_is_still_needed(instance):
    assert read(instance, 0, 1, 2, 3) == []
    assert instance.is_silent
    assert instance.on_result_position(ResultPosition(2, 0)) == [], "whoever speaks trims"
    assert said(list(instance.on_caught_up())) == [TakeOver(), 2, 3, Emit(Topic.FRAMES, 0, CHOSEN)]
    assert not instance.is_silent
    assert said(read(instance, 4)) == [4]
    assert instance.on_result_position(ResultPosition(5, 0)) == [Trim(Topic.PARTIALS, 0, 5)]


def test_it_beats_never_and_hears_nobody(instance):
    list(instance.on_caught_up())
    assert list(instance.on_time(1_000)) == []
    assert list(instance.on_record(Topic.PRESENCE, 0, 0, Presence("s", "b", "life", 9, speaks=True))) == []
    assert not instance.is_silent


def test_what_it_keeps_has_a_limit_and_it_claims_nothing_before_it_has_caught_up(instance):
    """Nobody may have spoken before it: then all of a long log would be kept."""
    assert read(instance, *range(UNSAID_MAX)) == []
    assert said(read(instance, UNSAID_MAX)) == [TakeOver(), *range(UNSAID_MAX + 1)]
    assert said(read(instance, 100)) == [100]
    assert said(list(instance.on_caught_up())) == [Emit(Topic.FRAMES, 0, CHOSEN)]


def test_a_part_that_is_out_is_kept_by_nobody(instance):
    emitted = Emit(Topic.MATCHES, 0, Part(0, 3, 0, 0, 1, ()))
    assert list(instance._say_or_keep(iter([emitted]))) == []
    instance.on_result_position(ResultPosition(4, 0))
    assert list(instance.on_caught_up()) == [TakeOver(), Emit(Topic.FRAMES, 0, CHOSEN)]


@pytest.mark.parametrize("is_heir", [True, False])
def test_a_life_follows_the_one_before_it_at_once_unless_it_was_fenced_by_a_later_one(is_heir):
    seat = Seat("s", "a", "third", 500, is_heir=is_heir)
    seat.accept_beat(Presence("s", "a", "second", 4, speaks=True))
    beat = seat.beat(0)
    assert (beat.speaks, beat.term) == (is_heir, 4 + is_heir)
