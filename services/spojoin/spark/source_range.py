"""Reads the results in a range of offsets, each once and always the same ones.

Only committed records are read. If the services write without transactions, a crash may leave some records twice. The
records before the range show which are new, so a range needs no state except its offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from spojoin.errors import BadData, ConfigurationError
from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogRecord, LogUnavailable
from spojoin.protocol.topology import Topic, topic_name
from spojoin.wire.result_forms import FRAMES
from spojoin.wire.results import BEGIN, CONTENT_TYPE, ResultProgress, ResultSequence, progress, result_from_message

POLL_S, RECORDS_MAX = 0.2, 256
#: A reading fails if it gets no record for this long although its offsets hold some.
PATIENCE_S = 60.0
#: How far before a range the predecessors of its first record are looked for, in offsets; further if there are none.
BEFORE, DEEPER = 32, 8
#: How many of a range's last records are remembered, to predict what a reading of the next range will find.
REMEMBERED = 256


def results_of(query: str, partition: int = 0) -> LogPartition:
    """A partition of a query's results."""
    return LogPartition(topic_name(query, Topic.RESULTS), partition)


def all_results_of(log: Log[bytes], query: str) -> list[LogPartition]:
    """The partitions of a query's results, at least one."""
    count = log.partitions(topic_name(query, Topic.RESULTS))
    return [results_of(query, partition) for partition in range(max(1, count))]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One result: the rows as they were sent, and the generation that answered."""

    offset: int
    generation: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _Place:
    """A record's offset and the results that it covers."""

    offset: int
    begin: int
    progress: ResultProgress


@dataclass(slots=True)
class RangeReading:
    """The new results in offsets [begin, end) of a topic; up to `end`, it is decided which records are committed."""

    log: Log[bytes]
    source: LogPartition
    begin: int
    end: int
    _seen: deque[_Place] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def answers(self) -> Iterator[ReadResult]:
        """Each result once, in order.

        Raises ConfigurationError if results have another form, BadData if some are missing or if a repetition is
        too long to be recognized, and LogUnavailable.
        """
        reader = self.log.reader()
        try:
            check_retained(self.log, self.source, self.begin, self.end)
            yield from self._new(reader, self._sequence_before(reader, self.begin))
        finally:
            reader.close()

    def _new(self, reader: LogReader[bytes], sequence: ResultSequence) -> Iterator[ReadResult]:
        is_checked = False
        for record in self._records(reader, self.begin, self.end):
            if not is_checked:  # from now on the reader itself reports records that are trimmed before it reads them
                check_retained(self.log, self.source, self.begin, self.end)
                is_checked = True
            headers = self._headers(record)
            place, before = _place(record.offset, headers), sequence.place
            self._seen.append(place)
            if sequence.accepts(place.begin, place.progress):
                found = result_from_message(headers, record.value)
                yield ReadResult(record.offset, found.generation, found.rows)
            elif before < (place.progress.generation, place.progress.frame_id, place.begin):
                raise BadData(self._gap(place, before))
        if not is_checked:
            check_retained(self.log, self.source, self.begin, self.end)
        self._check_next(sequence)

    def _records(self, reader: LogReader[bytes], begin: int, end: int) -> Iterator[LogRecord[bytes]]:
        """All committed records in [begin, end)."""
        reader.open(self.source, begin)
        silent_s = 0.0
        while reader.position(self.source) < end:
            found = reader.poll(RECORDS_MAX, POLL_S)
            yield from (record for record in found if begin <= record.offset < end)
            silent_s = 0.0 if found else silent_s + POLL_S
            if silent_s > PATIENCE_S:
                raise LogUnavailable(f"{self.source.topic} gave nothing for {PATIENCE_S:.0f} s before offset {end}")

    def _sequence_before(self, reader: LogReader[bytes], offset: int) -> ResultSequence:
        """The sequence of results up to an offset."""
        earliest, depth = self.log.bounds(self.source).earliest, BEFORE
        while True:
            first = max(earliest, offset - depth)
            self._seen.extend(
                _place(record.offset, self._headers(record)) for record in self._records(reader, first, offset)
            )
            if self._seen or first <= earliest:
                return _sequence(self._seen)
            depth *= DEEPER

    def _check_next(self, sequence: ResultSequence) -> None:
        """Raise BadData if a reading that begins at the end would take the wrong record for the next one."""
        if self._seen and _sequence(_last(self._seen, self.end)).place != sequence.place:
            raise BadData(
                f"{self.source.topic} repeats more results before offset {self.end} than a reading by offsets can tell "
                "from new ones, since they were written without transactions: serve the query with transactions, "
                "which is the default, and read with a new checkpoint"
            )

    def _headers(self, record: LogRecord[bytes]) -> dict[str, bytes]:
        headers = dict(record.headers)
        if headers.get(CONTENT_TYPE) != FRAMES.content_type:
            said = headers.get(CONTENT_TYPE, b"unknown").decode(errors="replace")
            raise ConfigurationError(
                f"the results in {self.source.topic} are {said}: read them with Spark's own Kafka source, or start the "
                "services with results_format frames"
            )
        return headers

    def _gap(self, found: _Place, place: tuple[int, int, int]) -> str:
        generation, frame, position = place
        return (
            f"results are missing before offset {found.offset} of {self.source.topic}: expected frame {frame} from "
            f"position {position} on (generation {generation}), found frame {found.progress.frame_id} from "
            f"{found.begin} on (generation {found.progress.generation})"
        )


def check_retained(log: Log[bytes], source: LogPartition, begin: int, end: int) -> None:
    """Raise BadData if records in [begin, end) are gone, or don't exist yet because the topic is another one."""
    bounds = log.bounds(source)
    if bounds.earliest > begin:
        raise BadData(
            f"the results of {source.topic} from offset {begin} to {bounds.earliest} were deleted before they were "
            "read: let the topic keep more (the setting topics), and begin again with a new checkpoint"
        )
    if bounds.end < end:
        raise BadData(
            f"{source.topic} ends at offset {bounds.end}, before {end}, where this reading stands: it was made anew; "
            "begin again with a new checkpoint"
        )


def _place(offset: int, headers: dict[str, bytes]) -> _Place:
    return _Place(offset, int(headers[BEGIN]), progress(headers))


def _sequence(places: Sequence[_Place]) -> ResultSequence:
    """A sequence that has reached the furthest of the records, which may not be the last one."""
    sequence = ResultSequence()
    if places:
        furthest = max(places, key=_rank)
        sequence.accepts(furthest.begin, furthest.progress)
    return sequence


def _rank(place: _Place) -> tuple[int, int, int, bool]:
    at = place.progress
    return at.generation, at.frame_id, at.position, at.is_last


def _last(seen: Sequence[_Place], offset: int) -> list[_Place]:
    """The last records that a reading from `offset` on would find before it."""
    depth = BEFORE
    while not (found := [place for place in seen if place.offset >= offset - depth]):
        depth *= DEEPER
    return found
