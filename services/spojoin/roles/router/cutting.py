"""Where the next frame ends (rule P5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.queue import OrderedQueue
from spojoin.wire.records import U8


@dataclass(slots=True)
class Cut:
    """How much of the queue the next frame takes, and which streams' slides of time end with it."""

    count: int
    ends_slide: list[bool]


class FrameCutter:
    """Cuts frames of at most `frame_tuples` off the queue; `is_time` is whether windows are of event time."""

    def __init__(self, queue: OrderedQueue, books: Sequence[StreamBook], frame_tuples: int, *, is_time: bool) -> None:
        self._queue = queue
        self._books = books
        self._frame_tuples = frame_tuples
        self._is_time = is_time

    def cut(self) -> Cut:
        """The longest head of the queue that fits a frame and crosses the end of no batch and of no large slide."""
        count = min(len(self._queue), self._frame_tuples)
        streams = self._queue.head(count).streams
        for stream, book in enumerate(self._books):
            count = _first_of(streams[:count], stream, book.room())
        if self._is_time:
            return self._cut_at_slides(streams, count)
        return Cut(count, [False] * len(self._books))

    def nothing(self) -> Cut:
        """A frame without tuples."""
        return Cut(0, [False] * len(self._books))

    def _cut_at_slides(self, streams: U8, count: int) -> Cut:
        ends = []
        for stream, book in enumerate(self._books):
            held = int(np.count_nonzero(streams[:count] == stream))
            fits = book.time_cut(self._queue.streams[stream].times(held)) if held else 0
            ends.append(_first_of(streams[:count], stream, fits) if fits < held else count + 1)
        best = min(count, *ends)
        return Cut(best, [end == best for end in ends])


def _first_of(streams: U8, stream: int, fits: int) -> int:
    """How long a head of the frame holds at most `fits` tuples of the stream."""
    own = np.flatnonzero(streams == stream)
    return len(streams) if len(own) <= fits else int(own[fits])
