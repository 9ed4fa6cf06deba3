"""Puts results in order, each once: a restart may have written some records again."""

from __future__ import annotations

from spojoin.wire.results import ResultProgress


class ResultSequence:
    """Takes a record iff it begins where the output so far ends, or is the first."""

    def __init__(self) -> None:
        self._next: tuple[int, int] | None = None
        self._place = (-1, 0)
        self._generation = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the output so far ends: generation, frame, and position in it; zeros before the first record."""
        return (self._generation, *(self._next or (0, 0)))

    def takes(self, begin: int, progress: ResultProgress) -> bool:
        """Whether a record is new; `begin` is the position in its frame where it starts.

        In the forms with several messages a result they begin at the same position; probe and row distinguish them.
        """
        if progress.generation < self._generation:
            return False
        if progress.generation > self._generation:
            self._go_over(progress.generation)
        if self._next is not None and (progress.frame_id, begin) != self._next:
            return False
        if progress.seq is not None:
            if progress.place <= self._place:
                return False
            self._place = progress.place
        self._next = (progress.frame_id, progress.position)
        if progress.is_last:
            self._next = (progress.frame_id + 1, 0)
        return True

    def _go_over(self, generation: int) -> None:
        """A new generation counts frames and seqs anew, from its first frame on."""
        if self._generation:
            self._next, self._place = (0, 0), (-1, 0)
        self._generation = generation
