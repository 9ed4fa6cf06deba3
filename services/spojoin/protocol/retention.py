"""Which records topics may lose once results are out, and what happens if results need lost ones (rule P9)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque

from spojoin.errors import Stop
from spojoin.protocol.machine import START, ResultPosition, Trim
from spojoin.protocol.topology import Topic


class BatchedTuples:
    """Batches of one stream that were seen in their topic, in any order, possibly repeatedly."""

    def __init__(self) -> None:
        self._batches: list[tuple[int, int]] = []
        self._end = 0

    def add_batch(self, first: int, end: int) -> None:
        """Note a batch with tuples [first, end)."""
        if end > self._end and (first, end) not in self._batches[-1:]:
            insort(self._batches, (first, end))

    def batched_to(self, reached: int) -> int:
        """The index up to which all tuples are in batches or unreachable; reached: the first that a window reaches."""
        self._end = max(self._end, reached)
        while (batch := self._holding(self._end)) is not None:
            self._end = batch[1]
        self._batches = [batch for batch in self._batches if batch[1] > self._end]
        return self._end

    def _holding(self, index: int) -> tuple[int, int] | None:
        at = bisect_right(self._batches, index, key=lambda batch: batch[0]) - 1
        return self._batches[at] if at >= 0 and self._batches[at][1] > index else None


class TrimLedger:
    """Remembers how long each record is needed, and returns the offsets up to which topics may be trimmed.

    A topic is trimmed from its start, so a needed record keeps all later ones.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        self._trimmed: dict[int, int] = {}

    def note_record(self, partition: int, offset: int, needed_until: int) -> None:
        """Note that a record at `offset` is needed until `release` gets a bound above `needed_until`."""
        self._needed.setdefault(partition, deque()).append((offset, needed_until))

    def release(self, partition: int, bound: int) -> list[Trim]:
        """Forget records that `bound` has passed; return at most one Trim."""
        records = self._needed.get(partition, deque())
        end = -1
        while records and records[0][1] < bound:
            end = max(end, records.popleft()[0] + 1)  # a record passed by reference has no offset in the topic
        if records and end >= 0:
            end = max(end, records[0][0])
        if end <= self._trimmed.get(partition, 0):
            return []
        self._trimmed[partition] = end
        return [Trim(self._topic, partition, end)]

    def partitions(self) -> list[int]:
        """Partitions with records noted."""
        return sorted(self._needed)


#: How long a loss must last before a service stops: another instance may have moved the results, and trimmed topics.
PATIENCE_MS = 5_000
RESTORE_ADVICE = "run `spojoin restore QUERY`, which begins again where results end; RUNBOOK.md says what that costs"


def stop_for_loss(what: str) -> Stop:  # P9.6
    """The error that ends a service whose topics have lost needed records."""
    return Stop(f"{what}: {RESTORE_ADVICE}")


def log_ends_early(result_position: ResultPosition, next_frame: int) -> str | None:
    """What a router's log has lost, if it ends before the results do; otherwise None."""
    behind = result_position.frame_id + (result_position.position > 0)
    if next_frame >= behind:
        return None
    return f"results are out for {behind:,} frames, and topic frames ends after {next_frame:,}: the others are lost"


class LogBegin:
    """The first frame of the log that a sink reads: the log must reach back to where results end."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._late_since_ms: int | None = None

    def note_frame(self, frame_id: int) -> None:
        """Note a frame of the log."""
        if self._first is None:
            self._first = frame_id

    def is_late(self, result_position: ResultPosition) -> bool:
        """Whether frames are missing between the end of the results, as far as it is known, and the log's begin."""
        return self._first is not None and self._first > result_position.frame_id

    def check_reaches_back(self, result_position: ResultPosition, now_ms: int) -> None:
        """Raise Stop if frames have been missing for PATIENCE_MS."""
        if not self.is_late(result_position):
            self._late_since_ms = None
            return
        self._late_since_ms = now_ms if self._late_since_ms is None else self._late_since_ms
        if now_ms - self._late_since_ms >= PATIENCE_MS:
            raise stop_for_loss(self._missing(result_position))

    def _missing(self, result_position: ResultPosition) -> str:
        begins = f"topic frames begins at frame {self._first:,}"
        if result_position == START:
            return f"topic results holds nothing, and {begins}: results are lost"
        return f"results end in frame {result_position.frame_id:,}, and {begins}: those between are lost"


def batches_end_early(stream: int, first: int, end: int) -> str:
    """What a stream has lost: tuples that windows reach, but that are in no batch."""
    return f"topic batches, partition {stream}, lacks tuples {first:,} to {end - 1:,}, which windows still reach"
