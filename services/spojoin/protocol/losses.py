"""What a service says of lost records that results need (rule P9): it ends before it answers wrongly."""

from __future__ import annotations

from spojoin.errors import Stop
from spojoin.protocol.machine import START, ResultPosition

#: How long results must be known not to need what is missing: another instance may have moved them, and trimmed.
PATIENCE_MS = 5_000
WAY_OUT = "run `spojoin restore QUERY`, which begins again where results end; DISASTERS.md says what that costs"


def lost(what: str) -> Stop:
    """The end of a service that misses records."""
    return Stop(f"{what}: {WAY_OUT}")


def log_ends_early(result_position: ResultPosition, next_frame: int) -> str | None:
    """A router's log must go on to where results end: what it has lost, if anything."""
    behind = result_position.frame_id + (result_position.position > 0)
    if next_frame >= behind:
        return None
    return f"results are out for {behind:,} frames, and topic frames ends after {next_frame:,}: the others are lost"


class LogBegin:
    """The first frame of the log, as a sink reads it: the log must reach back to where results end."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._late_since_ms: int | None = None

    def note(self, frame_id: int) -> None:
        """The log's next frame."""
        if self._first is None:
            self._first = frame_id

    def is_late(self, result_position: ResultPosition) -> bool:
        """Whether frames are missing between where results end, as far as is known, and where the log begins."""
        return self._first is not None and self._first > result_position.frame_id

    def check(self, result_position: ResultPosition, now_ms: int) -> None:
        """Raise Stop where that has been so for a while."""
        if not self.is_late(result_position):
            self._late_since_ms = None
            return
        self._late_since_ms = now_ms if self._late_since_ms is None else self._late_since_ms
        if now_ms - self._late_since_ms >= PATIENCE_MS:
            raise lost(self._missing(result_position))

    def _missing(self, result_position: ResultPosition) -> str:
        begins = f"topic frames begins at frame {self._first:,}"
        if result_position == START:
            return f"topic results holds nothing, and {begins}: results are lost"
        return f"results end in frame {result_position.frame_id:,}, and {begins}: those between are lost"


def batches_end_early(stream: int, first: int, end: int) -> str:
    """What is lost of a stream: tuples that windows reach, and that are in no batch."""
    return f"topic batches, partition {stream}, lacks tuples {first:,} to {end - 1:,}, which windows still reach"
