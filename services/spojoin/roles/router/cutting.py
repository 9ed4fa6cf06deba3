"""Where the next frame ends (rule P5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.physical_input import Flags
from spojoin.roles.router.queue import OrderedQueue, Origins
from spojoin.wire.records import I64, U8


@dataclass(slots=True)
class Cut:
    """How much of the queue the next frame takes, and which streams' slides of time end with it.

    ends: by side that asks, the first of its rows that stays open; until: int64 (count,), that with each row of the
        frame
    """

    count: int
    ends_slide: list[bool]
    ends: list[int] = field(default_factory=list)
    until: list[I64] = field(default_factory=list)


class FrameCutter:
    """Cuts frames of at most `frame_tuples` numbered rows off the queue; `is_time`: whether windows are of event time.

    inputs: by stream, the number of the input that feeds it
    """

    def __init__(
        self,
        queue: OrderedQueue,
        books: Sequence[StreamBook],
        inputs: Sequence[int],
        frame_tuples: int,
        *,
        is_time: bool,
    ) -> None:
        self._queue = queue
        self._books = books
        self._inputs = inputs
        self._frame_tuples = frame_tuples
        self._is_time = is_time

    def cut(self) -> Cut:
        """The longest head of the queue that fits a frame and crosses the end of no batch and of no large slide."""
        origins = self._head()
        count = len(origins)
        for stream, book in enumerate(self._books):
            if origins.is_plain:
                count = min(count, book.room(), book.slide_room())
                continue
            count = min(count, _first_of(of_stream(origins.joins, stream), book.room()))
            count = min(count, _first_of(of_stream(origins.members, stream), book.slide_room()))
        if self._is_time:
            return self._cut_at_slides(origins.slice(0, count))
        return Cut(count, [False] * len(self._books))

    def nothing(self) -> Cut:
        """A frame without tuples."""
        return Cut(0, [False] * len(self._books))

    def _head(self) -> Origins:
        """The queue's head with as many rows as take the numbers of a frame."""
        origins = self._queue.head(len(self._queue))
        if self._queue.numbered == len(origins):
            return origins.slice(0, self._frame_tuples)
        return origins.slice(0, _first_of(origins.numbered, self._frame_tuples))

    def _cut_at_slides(self, origins: Origins) -> Cut:
        ends = []
        for stream, book in enumerate(self._books):
            joins = of_stream(origins.joins, stream)
            times_us = self._times(origins, stream, joins)
            fits = book.time_cut(times_us) if len(times_us) else 0
            ends.append(_first_of(joins, fits) if fits < len(times_us) else len(origins) + 1)
        best = min(len(origins), *ends)
        return Cut(best, [end == best for end in ends])

    def _times(self, origins: Origins, stream: int, joins: Flags) -> I64:
        """The event times of the rows that join in a stream."""
        number = self._inputs[stream]
        own = origins.streams == number
        times_us: I64 = self._queue.inputs[number].times(int(np.count_nonzero(own)))[joins[own]]
        return times_us


def of_stream(bits: U8, stream: int) -> Flags:
    """Which rows have the bit of a stream, (n,)."""
    flags: Flags = (bits >> stream) & 1 == 1
    return flags


def _first_of(flags: Flags, fits: int) -> int:
    """How long a head of the rows holds at most `fits` of those flagged."""
    own = np.flatnonzero(flags)
    return len(flags) if len(own) <= fits else int(own[fits])
