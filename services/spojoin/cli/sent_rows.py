"""Finds out what happened to sent rows: the log shows the router's progress, the dead letters what it refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogUnavailable, records_between
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.topology import REPLAYED, Topic
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode
from spojoin.wire.records import Barrier, Frame, SourceState

RECORDS_MAX, POLL_S = 500, 0.2
#: After this time the user is told what the command waits for.
QUIET_S = 3.0
#: If the log is still empty after this time, the command says that no service runs.
CLAIM_S = 10.0

#: A row's place in a partition: the offset of its message, and the row within that.
Place = tuple[int, int]


@dataclass(slots=True)
class SentPart:
    """The messages sent to one partition of an input. begin: the first offset; rows: how many rows each message has.

    filtered: by message, the rows that pass no filter
    """

    source: LogPartition
    number: int
    begin: int
    rows: list[int] = field(default_factory=list)
    filtered: dict[int, frozenset[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.begin + len(self.rows)

    def rows_before(self, place: Place) -> int:
        """How many of the rows come before a place in the partition."""
        message = min(max(0, place[0] - self.begin), len(self.rows))
        return sum(self.rows[:message]) + (min(place[1], self.rows[message]) if message < len(self.rows) else 0)

    def is_filtered(self, place: Place) -> bool:
        """Whether the row at a place passes no filter."""
        return place[1] in self.filtered.get(place[0] - self.begin, frozenset())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to the rows: how many were taken, filtered out, refused (by reason), or still wait.

    first: why the first refused row was refused; is_served: whether any service has written to the log
    """

    taken: int
    filtered: int
    refused: Mapping[str, int]
    first: str
    waiting: int
    is_served: bool


class SentRowsFollower:
    """Follows the router through the rows that are about to be sent. Make it before they are sent."""

    def __init__(self, log: Log[bytes], topics: Topics) -> None:
        self._log = log
        self._topics = topics
        self._frames = topics.inputs_of(Topic.FRAMES)[0]
        self._letters = [topics.dead_letters(number) for number in range(len(topics.inputs))]
        self._letters_from = {each: log.end(each) for each in self._letters if log.partitions(each.topic)}

    def outcome(self, parts: Sequence[SentPart], patience_s: float, say: Callable[[str], None]) -> Outcome:
        """Wait until the router has passed the rows, or makes no progress for `patience_s`. Raises LogUnavailable.

        say: called with a sentence for the user if this takes long
        """
        passed, is_served = self._wait_until_passed(parts, patience_s, say)
        refused = {place: why for place, why in self._refused_by_place(parts) if _part_of(parts, place) is not None}
        rows = sum(sum(part.rows) for part in parts)
        behind = sum(part.rows_before(passed.get(part.source, (0, 0))) for part in parts)
        filtered = sum(len(each) for part in parts for each in part.filtered.values())
        filtered -= sum(_is_filtered(parts, place) for place in refused)
        waiting = rows - behind
        first = next(iter(refused.values()), ("", ""))[1]
        reasons = Counter(reason for reason, _ in refused.values())
        taken = max(0, rows - filtered - len(refused)) if not waiting else max(0, behind - len(refused))
        return Outcome(taken, filtered, reasons, first, waiting, is_served)

    def _wait_until_passed(
        self, parts: Sequence[SentPart], patience_s: float, say: Callable[[str], None]
    ) -> tuple[dict[LogPartition, Place], bool]:
        """The place that the router has reached in each input according to the log, and whether the log has begun."""
        passed: dict[LogPartition, Place] = {}
        if not self._has_begun(min(CLAIM_S, patience_s)):
            return passed, False
        reader, began_s = _AcceptedFrames(self._log, self._frames), time.monotonic()
        moved_s, is_quiet = began_s, True
        try:
            while time.monotonic() - moved_s < patience_s and not all(
                passed.get(part.source, (0, 0)) >= (part.end, 0) for part in parts
            ):
                for sources in reader.read():
                    if (found := self._passed_places(sources)) != passed:
                        passed, moved_s = found, time.monotonic()
                if is_quiet and time.monotonic() - began_s > QUIET_S:
                    is_quiet = False
                    say("all rows are in Kafka; waiting until the query has processed them")
        finally:
            reader.close()
        return passed, True

    def _has_begun(self, patience_s: float) -> bool:
        """Whether a router has written to the log. Waits, because a ready router may still be claiming the log."""
        if not self._log.partitions(self._frames.topic):
            return False
        began_s = time.monotonic()
        while not (has_begun := self._log.end(self._frames) > 0) and time.monotonic() - began_s < patience_s:
            time.sleep(POLL_S)
        return has_begun

    def _passed_places(self, sources: SourceState) -> dict[LogPartition, Place]:
        inputs = self._topics.inputs
        return {LogPartition(inputs[stream], number): (at.offset, at.row) for (stream, number), at in sources.items()}

    def _refused_by_place(self, parts: Sequence[SentPart]) -> list[tuple[tuple[LogPartition, Place], tuple[str, str]]]:
        """The place, the reason and the detail of each row refused since the rows were sent."""
        found = []
        numbers = {part.number for part in parts}
        for number, letters in enumerate(self._letters):
            if letters not in self._letters_from or number not in numbers:
                continue
            for record in records_between(self._log, letters, self._letters_from[letters], self._log.end(letters)):
                if any(name == REPLAYED for name, _ in record.headers):
                    continue
                headers = ((name, value or b"") for name, value in record.headers)
                said = {name.removeprefix("spojoin-"): value.decode(errors="replace") for name, value in headers}
                source = LogPartition(self._topics.inputs[number], int(said["source-partition"]))
                place = int(said["source-offset"]), int(said["source-row"])
                found.append(((source, place), (said["reason"], said["detail"])))
        return found


def _part_of(parts: Sequence[SentPart], place: tuple[LogPartition, Place]) -> SentPart | None:
    source, (offset, _) = place
    return next((part for part in parts if part.source == source and part.begin <= offset < part.end), None)


def _is_filtered(parts: Sequence[SentPart], place: tuple[LogPartition, Place]) -> bool:
    part = _part_of(parts, place)
    return part is not None and part.is_filtered(place[1])


class _AcceptedFrames:
    """Reads the accepted frames of a log that may be trimmed meanwhile."""

    def __init__(self, log: Log[bytes], source: LogPartition) -> None:
        self._log = log
        self._source = source
        self._reader: LogReader[bytes] | None = None
        self._follower = LogFollower()

    def read(self) -> list[SourceState]:
        """The inputs' positions after each of the next frames; waits a moment for the first frame."""
        if self._reader is None:
            self._reader, self._follower = self._log.reader(), LogFollower()
            self._reader.open(self._source, self._log.bounds(self._source).earliest)
        try:
            records = [decode(record.value) for record in self._reader.poll(RECORDS_MAX, POLL_S)]
        except LogUnavailable:  # the next records were trimmed
            self.close()
            time.sleep(POLL_S)
            return []
        accepted = [each for each in records if isinstance(each, Frame | Barrier) and self._follower.accept(each)]
        return [frame.source for frame in accepted if isinstance(frame, Frame)]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
