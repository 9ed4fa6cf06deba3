"""Which generation of its query a service serves (rule P12), and what a changed query needs to replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from spojoin.errors import ConfigurationError, WireError
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import EmitOn, Query
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.protocol.generations import Beginning, Generations
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import FIRST_GENERATION, Topic, topic_name
from spojoin.query.load import parse_query
from spojoin.query.meaning import differences, fingerprint, is_same_order
from spojoin.runtime.backfill import InputHistory, fill
from spojoin.runtime.inputs import Parse
from spojoin.runtime.settings import ENV_PREFIX, Settings
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Announcement, Takeover

APPEND_TIMEOUT_S = 30.0
POLL_RECORDS, POLL_S = 100, 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A generation to serve; `successor` is the query that will replace it, if any. `runner` runs pieces of frames."""

    query: Query
    generation: int = FIRST_GENERATION
    successor: Query | None = None
    begin: Callable[[ResultPosition, Parse], Beginning] = lambda _result_position, _parse: Beginning()
    runner: TaskRunner = IN_TURN


class GenerationsTopic:
    """The topic `<query>.generations`: few records, never trimmed, read whole each time there is a new one."""

    def __init__(self, log: Log[bytes], query: str) -> None:
        self._log = log
        self._source = LogPartition(topic_name(query, Topic.GENERATIONS), 0)
        self._seen_end = 0

    def has_news(self) -> bool:
        """Whether the topic holds records that were not read yet. Raises LogUnavailable."""
        return self._log.end(self._source) != self._seen_end

    def read(self) -> Generations:
        """All that the topic says. Raises LogUnavailable; ConfigurationError for records this version can't read."""
        bounds, found = self._log.bounds(self._source), Generations()
        reader = self._log.reader()
        try:
            reader.open(self._source, bounds.earliest)
            while reader.position(self._source) < bounds.end:
                for record in reader.poll(POLL_RECORDS, POLL_S):
                    found.hear(self._decoded(record.offset, record.value))
        finally:
            reader.close()
        self._seen_end = bounds.end
        return found

    def _decoded(self, offset: int, value: bytes) -> Announcement | Takeover:
        try:
            record = decode(value)
        except WireError as error:
            raise ConfigurationError(f"{self._source.topic} offset {offset}: {error}") from error
        if not isinstance(record, Announcement | Takeover):
            raise ConfigurationError(f"{self._source.topic} offset {offset} holds a {type(record).__name__}")
        return record

    def append(self, announcement: Announcement) -> None:
        """Write an announcement and wait until all can read it. Raises AmbiguousAppend."""
        writer = self._log.writer()
        try:
            writer.append(self._source, encode(announcement))
            writer.flush(APPEND_TIMEOUT_S)
        finally:
            writer.close()


class Office:
    """Decides what one service serves: `query` is what it was given, the topic says what was agreed upon."""

    def __init__(
        self,
        log: Log[bytes],
        query: Query,
        settings: Settings,
        *,
        writes_log: bool = False,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._query = query
        self._settings = settings
        self._writes_log = writes_log
        self._topic = GenerationsTopic(log, query.name)
        self._mark = fingerprint(query)
        self._pulse = pulse
        self._has_served = False

    def has_news(self) -> bool:
        """Whether `serving` might have a new answer. Raises LogUnavailable."""
        return self._topic.has_news()

    def serving(self) -> Serving | None:
        """What to serve now; None while the router has not announced it yet.

        Raises ConfigurationError where the query differs from the one that is served and may not replace it.
        """
        found = self._topic.read()
        wanted = found.wanted
        if wanted is None:
            return self._announced(found) if self._writes_log else None
        if wanted.fingerprint == self._mark:
            self._has_served = True
            return self._current(found)
        if self._has_served and self._is_current(found):  # it finishes its generation, for the one that is wanted
            return self._current(found)
        if self._has_served or not self._settings.replace:
            raise ConfigurationError(changed(self._query, wanted))
        if not self._writes_log:
            return self._current(found)
        check_replaceable(self._query, wanted)
        return self._announced(found)

    def _is_current(self, found: Generations) -> bool:
        return found.current is not None and found.current.fingerprint == self._mark

    def _announced(self, found: Generations) -> Serving | None:
        """Announce the query; of two that are announced at once, the first has the number."""
        number = found.next_number
        _log.info("announcing a generation", generation=number, backfill=self._settings.backfill.value)
        self._topic.append(Announcement(number, self._mark, self._query.text, self._settings.backfill.value))
        return self.serving()

    def _current(self, found: Generations) -> Serving:
        current = found.current
        if current is None:
            raise ValueError("nothing was announced")
        query = self._query if current.fingerprint == self._mark else announced_query(current)
        successor = None if found.successor is None else announced_query(found.successor)
        return Serving(query, current.generation, successor, self._beginning(query, current, found))

    def _beginning(
        self, query: Query, current: Announcement, found: Generations
    ) -> Callable[[ResultPosition, Parse], Beginning]:
        topics = Topics.of(query, self._settings.workers_max, self._settings.input_topics, current.generation)
        fresh = Beginning(current.generation, current.fingerprint)
        takeover = found.takeover
        if takeover is None:
            return lambda _result_position, _parse: fresh
        before = announced_query(found.announced(takeover.from_generation))
        streams = inputs_since(before, topics, self._settings.input_topics)
        begun = beginning_after(fresh, takeover, before, query, streams)

        def begin(result_position: ResultPosition, parse: Parse) -> Beginning:
            if result_position > START:  # its frames say where reading of the inputs resumes
                return begun
            history = InputHistory(self._log, topics.inputs, parse, self._pulse)
            filled = fill(history, query, begun, current.backfill)
            starts = {f"{topics.inputs[stream]}/{number}": at.offset for (stream, number), at in filled.starts.items()}
            _log.info("windows are filled from the inputs", backfill=current.backfill, starts=starts)
            return filled

        return begin


def goes_on(office: Office, serving: Serving) -> bool:
    """Whether the same generation is still to be served, in the same way. Raises as `Office.serving` does."""
    if not office.has_news():
        return True
    now = office.serving()
    return (
        now is not None
        and now.generation == serving.generation
        and (now.successor is None) == (serving.successor is None)
    )


def check_generation(log: Log[bytes], query: Query, *, replace: bool) -> None:
    """Raise ConfigurationError where another query is served under this one's name and may not be replaced."""
    wanted = GenerationsTopic(log, query.name).read().wanted
    if wanted is None or wanted.fingerprint == fingerprint(query):
        return
    if not replace:
        raise ConfigurationError(changed(query, wanted))
    check_replaceable(query, wanted)


def check_replaceable(query: Query, wanted: Announcement) -> None:
    """Raise ConfigurationError where a query can't take over from the one that was announced last (P12)."""
    if query.has_table or announced_query(wanted).has_table:
        raise ConfigurationError(
            f"query {query.name!r} can't be replaced: one of both joins with a table, whose rows come from no window "
            "that could be filled again; give the new query another name"
        )
    if EmitOn.CLOSE in (query.emit, announced_query(wanted).emit):
        raise ConfigurationError(
            f"query {query.name!r} can't be replaced: with EMIT ON CLOSE, before or after, rows that are open would "
            "get no answer from either; give the new query another name, and end this one when its rows are closed"
        )


def inputs_since(before: Query, topics: Topics, input_topics: Mapping[str, str]) -> dict[int, int]:
    """Today's input, by the input of an earlier query that had its topic; input_topics: as in `Settings`."""
    earlier = Topics.of(before, 1, input_topics).inputs
    return {number: topics.inputs.index(topic) for number, topic in enumerate(earlier) if topic in topics.inputs}


def beginning_after(
    fresh: Beginning, takeover: Takeover, before: Query, query: Query, streams: Mapping[int, int]
) -> Beginning:
    """Where a generation of `query` begins that takes over from one of `before`.

    streams: the input of `query` by the input of `before` that had its topic
    """
    source = {(streams[s], partition): at for (s, partition), at in takeover.source.items() if s in streams}
    sources = {now: then for then, now in streams.items()}
    counts = [_rows_before(takeover, before, query, stream, sources) for stream in range(len(query.streams))]
    has_same_times = is_same_order(before, query)
    return replace(
        fresh,
        cut={key: (at.offset, at.row) for key, at in source.items()},
        highs={key: at.high_time_us for key, at in source.items()} if has_same_times else {},
        lateness_us=takeover.lateness_us,
        checkpoint=takeover.checkpoint,
        counts=tuple(counts),
        numbered=_numbered_before(takeover, before, sources.get(0)) if query.shares_input else 0,
        rejected=takeover.rejected,
    )


def _rows_before(takeover: Takeover, before: Query, query: Query, stream: int, sources: Mapping[int, int]) -> int:
    """How many rows a stream of `query` had; sources: by input of `query`, the input of `before` with its topic."""
    fed_by = query.fed_by[stream]
    then = [s for s, number in enumerate(before.fed_by) if number == sources.get(fed_by)]
    now = [s for s, number in enumerate(query.fed_by) if number == fed_by]
    if len(then) == len(now):
        return takeover.counts[then[now.index(stream)]]
    return _numbered_before(takeover, before, sources.get(fed_by))


def _numbered_before(takeover: Takeover, before: Query, source: int | None) -> int:
    """How many rows of an input of `before` had a number."""
    fed = [stream for stream, number in enumerate(before.fed_by) if number == source]
    return takeover.numbered if len(fed) > 1 else sum(takeover.counts[stream] for stream in fed)


def announced_query(announcement: Announcement) -> Query:
    """The query of a generation. Raises ConfigurationError where this version doesn't understand it.

    Earlier versions let rows answer at arrival where the statement doesn't say when: a fingerprint tells that.
    """
    source = f"generation {announcement.generation} of the query, as its log has it"
    with suppress(ConfigurationError):
        earlier = parse_query(announcement.text, source, unsaid=EmitOn.ARRIVAL)
        if fingerprint(earlier) == announcement.fingerprint:
            return earlier
    return parse_query(announcement.text, source)


def changed(query: Query, served: Announcement) -> str:
    """The message for a user who starts a query of another meaning."""
    found = differences(announced_query(served), query)
    what = "; ".join(found) or "its meaning differs"
    return (
        f"query {query.name!r} is not the one that is served under this name, generation {served.generation}: {what}. "
        f"To replace it without losing a row: spojoin up --replace, helm upgrade --set-file query.text=FILE "
        f"--set query.replace=true, or {ENV_PREFIX}REPLACE=true; to serve both, give this one another name"
    )
