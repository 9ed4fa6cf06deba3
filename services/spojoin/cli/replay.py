"""Sends dead letters again: to the partitions that they came from, each once, in transactions that record this.

A transaction holds rows and, in the topic of their dead letters, a record that names the sent letters. So even after a
crash, or with two commands at the same time, a letter is either sent and recorded, or neither. If a row is refused
again, its new letter says how often it was sent; it is sent once more only on request.

A row may have several letters: a router that fails between a letter and its frame leaves the letter to its successor,
too, and each query on an input refuses rows for itself. The row is sent once for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from spojoin.cli.sent_rows import Outcome, Place, SentPart, SentRowsFollower
from spojoin.cli.topics import current_generation, kafka_config
from spojoin.local.reachable import check_kafka_takes
from spojoin.ports.interfaces import Log, LogPartition, LogRecord, LogWriter, records_between
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.access import transactional_id
from spojoin.protocol.topology import LETTER_SAYS, REPLAYED, REPLAYS
from spojoin.query.load import load_query
from spojoin.runtime.settings import load_settings
from spojoin.runtime.topics import Topics
from spojoin.wire.records import MessageHeaders

#: The service with whose transactional id the command writes, so that a second command ends the first.
REPLAY = "replay"
_PREFIX = "spojoin-"
#: Letters in a transaction.
TRANSACTION_LETTERS = 500
FLUSH_S, PATIENCE_S = 30.0, 10.0


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A record of a topic of dead letters.

    place: the row's place in its partition, `source`
    replays: how often the row was sent again before it was refused
    """

    record: LogRecord[bytes]
    source: LogPartition
    place: Place
    reason: str
    replays: int

    @classmethod
    def of(cls, record: LogRecord[bytes], topic: str) -> StoredLetter:
        """The letter in a record, from its headers; topic: the input of the letters."""
        said = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        source = LogPartition(topic, int(said[f"{_PREFIX}source-partition"]))
        place = int(said[f"{_PREFIX}source-offset"]), int(said[f"{_PREFIX}source-row"])
        return cls(record, source, place, said[f"{_PREFIX}reason"], int(said.get(REPLAYS, "0")))

    @property
    def time_ms(self) -> int:
        """When the row was refused."""
        return self.record.timestamp_ms

    @property
    def row_time_ms(self) -> int | None:
        """The timestamp of the refused message."""
        said = dict(self.record.headers).get(f"{_PREFIX}source-timestamp-ms")
        return None if said is None or int(said) < 0 else int(said)

    def row_headers(self) -> MessageHeaders:
        """The message's own headers, and how often it has been sent again."""
        own = [each for each in self.record.headers if each[0] not in (REPLAYS, *LETTER_SAYS)]
        return (*own, (REPLAYS, str(self.replays + 1).encode()))


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """The letters to send: their reasons (none for all), the earliest time, and whether to repeat those sent before."""

    reasons: frozenset[str] = frozenset()
    since_ms: int = 0
    again: bool = False

    def includes(self, letter: StoredLetter) -> bool:
        """Whether the letter is one of those to send."""
        is_new = self.again or not letter.replays
        return is_new and letter.time_ms >= self.since_ms and (not self.reasons or letter.reason in self.reasons)


@dataclass(slots=True)
class FoundLetters:
    """The dead letters in the topics, by reason: those to send, those sent before, and those left out."""

    chosen: list[StoredLetter] = field(default_factory=list)
    sent_before: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def by_reason(self) -> Counter[str]:
        return Counter(letter.reason for letter in self.chosen)


@dataclass(frozen=True, slots=True)
class SentAgain:
    """The rows that were sent, and those refused again, by reason; is_served: whether a router runs."""

    found: FoundLetters
    refused: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    is_served: bool = True


class Replay:
    """One run of the command."""

    def __init__(self, log: Log[bytes], topics: Topics, choice: LetterChoice) -> None:
        self._log = log
        self._topics = topics
        self._choice = choice

    def found(self) -> FoundLetters:
        """The letters of all inputs that producers feed. Raises LogUnavailable."""
        found = FoundLetters()
        for number, topic in enumerate(self._topics.inputs):
            letters = self._topics.dead_letters(number)
            if topic in self._topics.fed and self._log.partitions(letters.topic):
                self._sort(found, letters, topic)
        return found

    def _sort(self, found: FoundLetters, source: LogPartition, topic: str) -> None:
        bounds = self._log.bounds(source)
        records = [*records_between(self._log, source, bounds.earliest, bounds.end)]
        sent = {offset for record in records for offset in _sent(record)}
        for letters in _by_row(records, topic):
            included = [letter for letter in letters if self._choice.includes(letter)]
            if any(letter.record.offset in sent for letter in letters):
                found.sent_before[letters[-1].reason] += 1
            elif included:
                found.chosen.append(included[-1])
            else:
                found.left[letters[-1].reason] += 1

    def run(self, say: Callable[[str], None]) -> SentAgain:
        """Send the chosen letters again, and wait for the outcome. Raises Fenced if a second command has begun."""
        writer = self._log.writer(transactional_id(self._topics.query, REPLAY))
        try:
            found = self.found()  # after the writer is registered, so that no earlier command still sends
            passage, begin = SentRowsFollower(self._log, self._topics), self._ends(found)
            for first in range(0, len(found.chosen), TRANSACTION_LETTERS):
                self._send(writer, found.chosen[first : first + TRANSACTION_LETTERS])
        finally:
            writer.close()
        if not found.chosen:
            return SentAgain(found)
        return self._outcome(found, begin, passage.outcome(self._parts(found, begin), PATIENCE_S, say))

    def _send(self, writer: LogWriter[bytes], letters: Sequence[StoredLetter]) -> None:
        sent: dict[LogPartition, list[int]] = {}
        for letter in letters:
            row = letter.record
            writer.append(letter.source, row.value, letter.row_headers(), letter.row_time_ms, key=row.key)
            sent.setdefault(row.input, []).append(row.offset)
        for source, offsets in sent.items():
            writer.append(source, orjson.dumps(offsets), ((REPLAYED, b"offsets"),))
        writer.flush(FLUSH_S)

    def _ends(self, found: FoundLetters) -> dict[LogPartition, int]:
        """The ends of the partitions that get rows, and of those with letters."""
        involved = {each for letter in found.chosen for each in (letter.source, letter.record.input)}
        return {source: self._log.end(source) for source in involved}

    def _parts(self, found: FoundLetters, begin: Mapping[LogPartition, int]) -> list[SentPart]:
        """What was sent, by partition; the last offsets hold no rows, since transactions leave markers there."""
        parts = []
        for source, rows in Counter(letter.source for letter in found.chosen).items():
            behind = self._log.end(source) - begin[source] - rows
            number = self._topics.inputs.index(source.topic)
            parts.append(SentPart(source, number, begin[source], [1] * rows + [0] * behind))
        return parts

    def _outcome(self, found: FoundLetters, begin: Mapping[LogPartition, int], outcome: Outcome) -> SentAgain:
        """The outcome, with the new letters of rows that were sent again."""
        refused: Counter[str] = Counter()
        for source, topic in {(letter.record.input, letter.source.topic) for letter in found.chosen}:
            records = records_between(self._log, source, begin[source], self._log.end(source))
            refused.update(letters[-1].reason for letters in _by_row(records, topic) if letters[-1].replays)
        return SentAgain(found, refused, outcome.waiting, outcome.is_served)


def _by_row(records: Iterable[LogRecord[bytes]], topic: str) -> Iterable[list[StoredLetter]]:
    """The letters of each row, the newest last."""
    found: dict[tuple[LogPartition, Place], list[StoredLetter]] = {}
    for letter in (StoredLetter.of(record, topic) for record in records if _is_letter(record)):
        found.setdefault((letter.source, letter.place), []).append(letter)
    return found.values()


def _is_letter(record: LogRecord[bytes]) -> bool:
    return all(name != REPLAYED for name, _ in record.headers)


def _sent(record: LogRecord[bytes]) -> list[int]:
    return [] if _is_letter(record) else list(orjson.loads(record.value))


def sentences(sent: SentAgain, query: str) -> Iterator[str]:
    """What to say at the end; query: its file and the address of its Kafka, as in a command."""
    found = sent.found
    yield f"{len(found.chosen):,} rows sent again{_named(found.by_reason())}"
    if found.chosen and not sent.is_served:
        yield f"not processed yet: no service runs this query; start it with `spojoin up {query}`"
    elif found.chosen:
        waiting = (
            f", {sent.waiting:,} still wait, for later rows of event time or for the services" if sent.waiting else ""
        )
        yield f"{sent.refused.total():,} refused again{_named(sent.refused)}{waiting}"
    yield from letters_left(found)


def replay_letters(
    query_file: Path, bootstrap: str, chosen: tuple[frozenset[str], int, bool], *, is_dry: bool
) -> list[str]:
    """Run the command: send a query's letters again, or only count them, and return sentences on the outcome."""
    settings = load_settings(query_file=query_file, bootstrap_servers=bootstrap)
    query = load_query(query_file)
    check_kafka_takes(bootstrap, settings.kafka_properties())
    with closing(KafkaLog(kafka_config(settings))) as log:
        topics = Topics.for_query(
            query, settings.workers_max, settings.input_topics, current_generation(log, query.name)
        )
        replay = Replay(log, topics, LetterChoice(*chosen))
        if is_dry:
            found = replay.found()
            return [would_be_sent(found), *letters_left(found)]
        return [*sentences(replay.run(lambda _: None), f"{query_file} --bootstrap {bootstrap}")]


def would_be_sent(found: FoundLetters) -> str:
    """What `--dry-run` says about the chosen letters."""
    return f"{len(found.chosen):,} rows would be sent again{_named(found.by_reason())}"


def letters_left(found: FoundLetters) -> Iterator[str]:
    """Sentences about the letters that were not chosen."""
    if found.sent_before:
        yield f"{found.sent_before.total():,} were sent before{_named(found.sent_before)}"
    if found.left:
        yield f"{found.left.total():,} left{_named(found.left)}"


def _named(reasons: Counter[str]) -> str:
    named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f": {named}" if named else ""
