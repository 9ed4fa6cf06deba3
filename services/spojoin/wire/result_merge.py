"""Puts the results of several partitions into the order of the log (rule P20)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from spojoin.wire.results import ResultProgress

T = TypeVar("T")


class _Message(NamedTuple, Generic[T]):
    progress: ResultProgress
    item: T


class ResultMerge(Generic[T]):  # P20.6
    """Merges the partitions' messages by frame; each partition's are given in its order, and none twice.

    Frame f is in partition f modulo n, and every frame has a message. So the next frame is waited for in its partition
    alone. If the partitions have rows by key (P20.7), a frame is waited for in all of them, and its rows are put in
    order. A partition that goes on with a later generation shows that the log has all results of this one.
    """

    def __init__(self, partitions: int, is_read: Callable[[int], bool]) -> None:
        """is_read: asks the log whether everything that a partition holds now has been given."""
        self._waiting: list[deque[_Message[T]]] = [deque() for _ in range(partitions)]
        self._is_read = is_read
        self._generation = self._newest = self._frame = self._sinks = 0
        self._by_key = False

    def take(self, partition: int, progress: ResultProgress, item: T) -> None:
        """Take the next message of a partition; an earlier generation's sink may still repeat its position (P9.8)."""
        if progress.generation < self._generation or _is_void(progress):
            return
        self._waiting[partition].append(_Message(progress, item))
        self._newest = max(self._newest, progress.generation)

    def in_order(self) -> Iterator[T]:
        """The messages that follow now."""
        while self._goes_on():
            if self._by_key:
                yield from self._rows_of_frame()
            else:
                message = self._own[self._frame % self._sinks].popleft()
                self._frame += message.progress.is_last
                yield message.item

    def _rows_of_frame(self) -> list[T]:
        """The messages of all partitions for a frame that is here, in the order of its rows."""
        found: list[_Message[T]] = []
        for waiting in self._own:
            while waiting and _place(waiting[0].progress) == self._here:
                found.append(waiting.popleft())
        return [message.item for message in sorted(found, key=lambda message: message.progress.place)]

    @property
    def _own(self) -> list[deque[_Message[T]]]:
        """What waits, by partition of the generation."""
        return self._waiting[: self._sinks]

    @property
    def _here(self) -> tuple[int, int]:
        return self._generation, self._frame

    def _goes_on(self) -> bool:
        """Whether the next message of the order is here."""
        if self._is_here():
            return True
        if self._newest > self._generation:
            return self._go_to_first() and self._is_here()
        if self._by_key or not self._sinks or not self._waiting[self._frame % self._sinks]:
            return False
        self._frame = self._next_kept()
        return self._is_here()

    def _is_here(self) -> bool:
        if not self._sinks:
            return False
        if self._by_key:
            return self._is_whole()
        waiting = self._waiting[self._frame % self._sinks]
        return bool(waiting) and _place(waiting[0].progress) == self._here

    def _is_whole(self) -> bool:
        """Whether all messages for the earliest frame that waits have been taken."""
        firsts = [waiting[0].progress for waiting in self._own if waiting]
        frames = [first.frame_id for first in firsts if first.generation == self._generation]
        self._frame = min(frames, default=self._frame)
        return bool(frames) and all(waiting and self._is_past(waiting[-1].progress) for waiting in self._own)

    def _is_past(self, last: ResultProgress) -> bool:
        """Whether all of a partition's messages for the frame have been taken, by the last one taken."""
        return _place(last) > self._here or (_place(last) == self._here and last.is_last)

    def _next_kept(self) -> int:
        """The frame after one that is no longer kept: the first that is here, or may still come."""
        own = self._own
        if all(own):
            return min(waiting[0].progress.frame_id for waiting in own)
        following = range(self._frame + 1, self._frame + 1 + self._sinks)
        return next(
            frame
            for frame in following
            if not own[frame % self._sinks] or own[frame % self._sinks][0].progress.frame_id == frame
        )

    def _go_to_first(self) -> bool:
        """Go to the earliest message, once every partition has one or holds none; return whether that is so."""
        firsts = [waiting[0].progress for waiting in self._waiting if waiting]
        if not firsts or not all(waiting or self._is_read(number) for number, waiting in enumerate(self._waiting)):
            return False
        first = min(firsts, key=_place)
        self._generation, self._frame, self._sinks = first.generation, first.frame_id, first.sinks
        self._by_key = first.by_key
        if first.generation == self._newest and not first.by_key:  # a partition without a message has not begun
            missing = [number for number, waiting in enumerate(self._waiting[: self._sinks]) if not waiting]
            self._frame = min([first.frame_id, *missing])
        return True


def _is_void(progress: ResultProgress) -> bool:
    """Whether a message by key has neither a row nor a frame's end: of a frame that may never come, it may be all."""
    return progress.by_key and progress.seq is None and not progress.is_last


def _place(progress: ResultProgress) -> tuple[int, int]:
    return progress.generation, progress.frame_id
