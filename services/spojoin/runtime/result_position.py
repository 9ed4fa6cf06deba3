"""How far results are out, from the results topic, which is authoritative, and between readings from the store."""

from __future__ import annotations

from collections.abc import Sequence

from spojoin.errors import Stop
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogReader, LogRecord, LogUnavailable
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.result_partitions import WHOLE, ResultPartition, out_everywhere
from spojoin.protocol.retention import RESTORE_ADVICE
from spojoin.protocol.topology import FIRST_GENERATION
from spojoin.wire.results import ResultProgress, progress

#: how many of the latest records of a results topic are read; some may be transaction markers
TAIL_RECORDS = 16
#: when the store has had nothing new for this long, the tail of the results is read
SILENCE_MS = 1_000
#: the same if the store doesn't know the position: less than the patience after which rows answer for each other (P19)
UNTOLD_MS = 150


class ResultsEnd:
    """Finds the furthest progress among the last records of a partition of the results, without waiting for it.

    The last record may not be the furthest: without transactions, a sink that was replaced can still write. So the
    furthest counts, not the last.
    """

    def __init__(
        self,
        log: Log[bytes],
        reader: LogReader[bytes],
        topic: str,
        share: ResultPartition,
        generation: int = FIRST_GENERATION,
    ) -> None:
        self._furthest: ResultProgress | None = None
        self._generation = generation
        self.share = share
        self._log = log
        self._reader = reader
        self._results = LogPartition(topic, share.number)
        self._seen_end = -1
        self._depth = TAIL_RECORDS
        self._is_reading = False

    @property
    def furthest(self) -> ResultProgress | None:
        """How far this generation's results are out; None if there are none yet."""
        found = self._furthest
        return found if found is not None and found.generation == self._generation else None

    @property
    def newest_generation(self) -> int:
        """The generation of the last results; 0 if there are none."""
        return 0 if self._furthest is None else self._furthest.generation

    @property
    def matches(self) -> int:
        """The number of matches in all results of the partition that are out, of all generations."""
        return 0 if self._furthest is None else self._furthest.matches

    @property
    def owed(self) -> ResultPosition:
        """What the partition lacks of this generation."""
        return self.share.first if self.furthest is None else position_of_results(self.furthest)

    @property
    def is_reading(self) -> bool:
        """Whether the tail isn't read completely yet."""
        return self._is_reading

    def begin_reading(self) -> None:
        """Begin to read the tail, if there is anything new."""
        bounds = self._log.bounds(self._results)
        if self._is_reading or bounds.end == self._seen_end:
            return
        if bounds.end > 0 and bounds.earliest == bounds.end:
            raise Stop(
                f"topic {self._results.topic} was emptied, so the position to resume from is lost: {RESTORE_ADVICE}"
            )
        if bounds.end > bounds.earliest:
            self._reader.open(self._results, max(bounds.earliest, bounds.end - self._depth))
            self._is_reading = True
        self._seen_end = bounds.end

    def accept_records(self, records: Sequence[LogRecord[bytes]]) -> None:
        """Take records of the results topic, and stop reading it at the end."""
        for record in records:
            self._note(progress(dict(record.headers)))
        if self._is_reading and self._is_read():
            self._reader.drop(self._results)
            self._is_reading = False
            self._go_deeper()

    def _is_read(self) -> bool:
        """Whether the looked-up end is reached; while another sink writes, a reader may never reach a final end."""
        return self._reader.at_end(self._results) or self._reader.position(self._results) >= self._seen_end

    def _note(self, found: ResultProgress) -> None:
        share = self.share
        if found.generation == self._generation and (found.sinks, found.by_key) != (share.count, share.by_key):
            raise Stop(
                f"results of generation {self._generation} in {self._results.topic} have "
                f"{_in_words(found.sinks, by_key=found.by_key)}, but those announced have "
                f"{_in_words(share.count, by_key=share.by_key)}: {RESTORE_ADVICE}"
            )
        if self._furthest is None or _rank(found) > _rank(self._furthest):
            self._furthest = found

    def _go_deeper(self) -> None:
        """Look further back if the tail contains only markers."""
        if self._furthest is None and self._depth < self._seen_end:
            self._depth *= 8
            self._seen_end = -1
            self.begin_reading()


class ResultsEnds:  # P20.4
    """The ends of all partitions of the results."""

    def __init__(
        self,
        log: Log[bytes],
        reader: LogReader[bytes],
        topic: str,
        generation: int = FIRST_GENERATION,
        shares: Sequence[ResultPartition] = (WHOLE,),
    ) -> None:
        self.ends = [ResultsEnd(log, reader, topic, share, generation) for share in shares]
        self._reader = reader
        self._topic = topic

    @property
    def shares(self) -> list[ResultPartition]:
        """The partitions."""
        return [end.share for end in self.ends]

    @property
    def newest_generation(self) -> int:
        """The generation of the last results; 0 if there are none."""
        return max(end.newest_generation for end in self.ends)

    @property
    def is_reading(self) -> bool:
        """Whether a tail isn't read completely yet."""
        return any(end.is_reading for end in self.ends)

    @property
    def owed(self) -> list[ResultPosition]:
        """What each partition lacks of this generation."""
        return [end.owed for end in self.ends]

    def find(self, timeout_s: float, clock: Clock) -> None:
        """Read the tails and wait for them; nothing else may be open in the reader."""
        deadline_ms = clock.monotonic_ms() + 1000 * timeout_s
        self.begin_reading()
        while self.is_reading:
            self.accept_records(self._reader.poll(TAIL_RECORDS, 0.05))
            if clock.monotonic_ms() > deadline_ms:
                raise LogUnavailable(f"the end of {self._topic} was not reached within {timeout_s:.0f} s")

    def begin_reading(self) -> None:
        """Begin to read each tail that may have anything new."""
        for end in self.ends:
            end.begin_reading()

    def accept_records(self, records: Sequence[LogRecord[bytes]]) -> None:
        """Take records of the results topic."""
        for end in self.ends:
            own = [record for record in records if record.input.partition == end.share.number]
            end.accept_records(own)


def _in_words(count: int, *, by_key: bool) -> str:
    several = f"{count} partition{'s' * (count > 1)}"
    return f"{several} by key" if by_key else several


def _rank(at: ResultProgress) -> tuple[int, ResultPosition, tuple[int, int]]:
    return at.generation, position_of_results(at), at.place


def position_of_results(at: ResultProgress | None) -> ResultPosition:
    """The result position for a record's progress."""
    if at is None:
        return START
    return ResultPosition(*at.following)


class ResultPositionFollower:
    """Reports moves of the result position, which is that of the partition that lacks the earliest results (P20.4).

    Reads the store every `interval_ms`. Reads the results topic if the store has had nothing new for a second, or
    sooner if the store does not know the position.
    """

    def __init__(self, tails: ResultsEnds, shared: SharedState, clock: Clock, interval_ms: float) -> None:
        self._owed = tails.owed
        self._tails = tails
        self._shared = shared
        self._clock = clock
        self._interval_ms = interval_ms
        self._moved_ms = clock.monotonic_ms()
        # Read the store at once, before this service's reports overwrite a position that only the store has.
        self._asked_ms = self._moved_ms - interval_ms
        self._silence_ms = SILENCE_MS

    @property
    def latest(self) -> ResultPosition:
        """How far results are out in all partitions, as far as is known."""
        return out_everywhere(self._owed)

    def poll(self) -> ResultPosition | None:
        """The result position, if it has moved since the last call."""
        now_ms = self._clock.monotonic_ms()
        candidates = [self._tails.owed]
        if now_ms - self._asked_ms >= self._interval_ms:
            self._asked_ms = now_ms
            told = [self._shared.result_position(share) for share in self._tails.shares]
            self._silence_ms = UNTOLD_MS if None in told else SILENCE_MS
            candidates.append([each or START for each in told])
        if now_ms - self._moved_ms >= self._silence_ms:
            self._moved_ms = now_ms
            self._tails.begin_reading()
        return self._move_to([max(found) for found in zip(*candidates, strict=True)])

    def move(self, result_position: ResultPosition, partition: int) -> ResultPosition | None:
        """Note what a partition lacks; return the result position if it moved, otherwise None."""
        return self._move_to([result_position if at == partition else known for at, known in enumerate(self._owed)])

    def _move_to(self, owed: Sequence[ResultPosition]) -> ResultPosition | None:
        before = self.latest
        self._owed = [max(pair) for pair in zip(self._owed, owed, strict=True)]
        if self.latest == before:
            return None
        self._moved_ms = self._clock.monotonic_ms()
        return self.latest
