"""Which generation of its query a service serves (rule P12), and what a changed query needs to replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from spojoin.errors import ConfigurationError, WireError
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import EmitOn, Query
from spojoin.ports.interfaces import Log, LogPartition, records_between
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import CLAIM, Beginning, Generations
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import FIRST_GENERATION, Topic, topic_name
from spojoin.query.fingerprint import differences, fingerprint, is_same_order
from spojoin.query.load import parse_query
from spojoin.runtime.backfill import InputHistory, Past, fill, seen_now
from spojoin.runtime.feeds import Parse
from spojoin.runtime.settings import ENV_PREFIX, NO_RELEASE, Settings
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Announcement, Takeover

APPEND_TIMEOUT_S = 30.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A generation to serve.

    successor: the query that will replace it, if any
    runner: runs pieces of frames
    input_topics: as in `Settings`; given if the settings' own belong to another query
    sinks: how many partitions its results have
    """

    query: Query
    generation: int = FIRST_GENERATION
    successor: Query | None = None
    begin: Callable[[ResultPosition, Parse], Beginning] = lambda _result_position, _parse: Beginning()
    runner: TaskRunner = IN_TURN
    input_topics: Mapping[str, str] | None = None
    sinks: int = 1

    def topics(self, settings: Settings, logical_ands: int = 1, intakes: int = 0) -> Topics:
        """The generation's topics, with partitions of matches and blocks for that many logical ANDs and intakes."""
        input_topics = settings.input_topics if self.input_topics is None else self.input_topics
        workers_max, generation = settings.workers_max, self.generation
        return Topics.for_query(self.query, workers_max, input_topics, generation, logical_ands, self.sinks, intakes)


class GenerationsTopic:
    """The topic `<query>.generations`: few records, never trimmed, read completely whenever there is a new one."""

    def __init__(self, log: Log[bytes], query: str) -> None:
        self._log = log
        self._source = LogPartition(topic_name(query, Topic.GENERATIONS), 0)
        self._seen_end = 0

    def has_news(self) -> bool:
        """Whether the topic holds unread records. Raises LogUnavailable."""
        return self._log.end(self._source) != self._seen_end

    def read(self) -> Generations:
        """The topic's content. Raises LogUnavailable; ConfigurationError for records that this version can't read."""
        bounds, found = self._log.bounds(self._source), Generations()
        for record in records_between(self._log, self._source, bounds.earliest, bounds.end):
            found.accept_record(self._decoded(record.offset, record.value))
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

    def write_record(self, record: Announcement | Takeover) -> None:
        """Write a record and wait until it is readable. Raises AmbiguousAppend."""
        writer = self._log.writer()
        try:
            writer.append(self._source, encode(record))
            writer.flush(APPEND_TIMEOUT_S)
        finally:
            writer.close()


class Announcing(NamedTuple):
    """What the service that writes the log needs to announce its query while the previous generation still answers.

    parse: reads the inputs of that query; prepare: creates the topics of a generation
    """

    parse: Parse
    prepare: Callable[[Topics], None] = lambda _: None


class GenerationChooser:
    """Decides which generation a service serves, from the query that it was given and the topic of generations.

    announcing: given to the service that writes the log; the others announce nothing
    pulse: called repeatedly while announcing takes long
    judged: called with each decision: why another query than the given one is served, or none; empty if it is served
    awaits_takeover: whether the generation that is served has a successor
    """

    def __init__(
        self,
        log: Log[bytes],
        query: Query,
        settings: Settings,
        *,
        announcing: Announcing | None = None,
        pulse: Callable[[], None] = lambda: None,
        judged: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._query = query
        self._settings = settings
        self._announcing = announcing
        self._seen: Sequence[Past] = ()
        self._topic = GenerationsTopic(log, query.name)
        self._mark = fingerprint(query)
        self._pulse = pulse
        self._judged = judged
        self._has_served = False
        self.awaits_takeover = False

    def has_news(self) -> bool:
        """Whether `serving` might return something new. Raises LogUnavailable."""
        return self._topic.has_news()

    def serving(self) -> Serving | None:
        """What to serve now; None until the router has claimed the name and announced the query, or if another owns it.

        The service that writes the log checks its query. The others serve what the topic says, regardless of their own
        query, so a changed query restarts none of them. If the writer's query may not replace the served one, a writer
        in a release goes on with the served one; any other raises ConfigurationError, also if another owns the name.
        """
        found = self._topic.read()
        owner, wanted = self._settings.owner, found.wanted
        if self._announcing is None:
            is_ours = is_owners(found, owner, "")
            self._judged("" if is_ours else foreign(self._query.name, found, owner))
            return None if wanted is None or not is_ours else self._current(found)
        adopt = "" if self._has_served else self._settings.adopt  # a service that lost the name doesn't take it back
        if not is_owners(found, owner, adopt):
            return self._decided(foreign(self._query.name, found, owner), None)
        if wanted is None:
            return self._announced(found)
        if found.owner != owner:
            return self._claimed()
        refusal = self._refusal(found, wanted)
        if not refusal and not self._has_served:
            return self._announced_as_next(found, self._announcing)
        return self._decided(refusal, self._current(found))

    def _decided(self, refusal: str, serving: Serving | None) -> Serving | None:
        if refusal and not self._settings.is_release:
            raise ConfigurationError(refusal)
        self._judged(refusal)
        return serving

    def _refusal(self, found: Generations, wanted: Announcement) -> str:  # P12.5
        """Why this service's query won't be served; empty if it is served, or will be."""
        if self._is_given(wanted):
            self._has_served = True
        elif self._has_served and found.current is not None and self._is_given(found.current):
            return ""  # it finishes its generation, and the wanted one follows
        elif self._has_served or not self._settings.replace:
            return changed(self._query, wanted, self._settings.sinks)
        else:
            return irreplaceable(self._query, wanted)
        return ""

    def _is_given(self, announcement: Announcement) -> bool:  # P20.1
        """Whether an announcement is of the query and the number of sinks that this service was given."""
        return (announcement.fingerprint, announcement.sinks) == (self._mark, self._settings.sinks)

    def _claimed(self) -> Serving | None:
        """Claim the name; if two services claim it at once, the first gets it."""
        owner, adopt = self._settings.owner, self._settings.adopt
        _log.info("claiming the name", owner=owner, adopts=adopt)
        self._topic.write_record(Announcement(CLAIM, 0, "", "", owner=owner, adopts=adopt))
        return self.serving()

    def _announced_as_next(self, found: Generations, announcing: Announcing) -> Serving | None:
        """Announce the query after the preparations that are possible while the previous generation answers."""
        settings, next_number = self._settings, found.next_number
        topics = Serving(self._query, next_number, sinks=settings.sinks).topics(
            settings, settings.mutable_reporters(), settings.intakes
        )
        if self._settings.backfill is Backfill.WINDOW and not self._seen:
            _log.info("looking at the inputs, before the query is announced", inputs=topics.inputs)
            self._seen = seen_now(InputHistory(self._log, topics.inputs, announcing.parse, self._pulse), self._query)
            if self._seen:
                return self.serving()
        announcing.prepare(topics)
        return self._announced(found)

    def _seen_for(self, query: Query) -> Sequence[Past]:
        if query is not self._query:
            return ()
        seen, self._seen = self._seen, ()
        return seen

    def _announced(self, found: Generations) -> Serving | None:
        """Announce the query; if two are announced at once, the first gets the number."""
        number, settings = found.next_number, self._settings
        _log.info("announcing a generation", generation=number, backfill=settings.backfill.value)
        inputs = Serving(self._query, number).topics(settings).inputs
        self._topic.write_record(
            Announcement(
                number,
                self._mark,
                self._query.text,
                settings.backfill.value,
                inputs,
                settings.owner,
                settings.adopt,
                settings.sinks,
            )
        )
        return self.serving()

    def _current(self, found: Generations) -> Serving:
        current = found.current
        if current is None:
            raise ValueError("nothing was announced")
        is_given = current.fingerprint == self._mark
        query = self._query if is_given else announced_query(current)
        input_topics = self._settings.input_topics if is_given else self._inputs(query, current)
        successor = None if found.successor is None else announced_query(found.successor)
        self.awaits_takeover = successor is not None
        serving = Serving(query, current.generation, successor, input_topics=input_topics, sinks=current.sinks)
        return replace(serving, begin=self._beginning(serving, current, found))

    def _inputs(self, query: Query, announcement: Announcement) -> Mapping[str, str]:
        return announced_inputs(query, announcement, self._settings.input_topics)

    def _beginning(
        self, serving: Serving, current: Announcement, found: Generations
    ) -> Callable[[ResultPosition, Parse], Beginning]:
        query, topics = serving.query, serving.topics(self._settings)
        fresh = Beginning(current.generation, current.fingerprint)
        takeover = found.takeover
        if takeover is None:
            return lambda _result_position, _parse: fresh
        announced = found.announced(takeover.from_generation)
        before = announced_query(announced)
        streams = inputs_since(before, topics, self._inputs(before, announced))
        begun = beginning_after(fresh, takeover, before, query, streams)

        def begin(result_position: ResultPosition, parse: Parse) -> Beginning:
            if result_position > START:  # its frames hold the positions where reading of the inputs resumes
                return begun
            history = InputHistory(self._log, topics.inputs, parse, self._pulse, _warn_of_refused)
            filled = fill(history, query, begun, current.backfill, self._seen_for(query))
            starts = {f"{topics.inputs[stream]}/{number}": at.offset for (stream, number), at in filled.starts.items()}
            _log.info("windows are filled from the inputs", backfill=current.backfill, starts=starts)
            return filled

        return begin


def _warn_of_refused(refused: Mapping[str, int], why: str) -> None:
    _log.warning("rows that are read again are refused, and in no window", refused=refused, why=why)


def goes_on(office: GenerationChooser, serving: Serving) -> bool:
    """Whether the same generation should still be served. Raises what `GenerationChooser.serving` raises."""
    if not office.has_news():
        return True
    now = office.serving()
    return now is not None and now.generation == serving.generation


def check_generation(
    log: Log[bytes], query: Query, *, replace: bool, owner: str = NO_RELEASE, adopt: str = "", sinks: int = 1
) -> None:
    """Raise ConfigurationError if another owns the query's name, or another query is served and may not be replaced.

    replace, owner, adopt, sinks: as in `Settings`
    """
    found = GenerationsTopic(log, query.name).read()
    if not is_owners(found, owner, adopt):
        raise ConfigurationError(foreign(query.name, found, owner))
    if refusal := refused(query, found, replace=replace, sinks=sinks):
        raise ConfigurationError(refusal)


def refused(query: Query, found: Generations, *, replace: bool, sinks: int = 1) -> str:
    """Why a query won't be served with this number of sinks; empty if it is, or may replace the served one."""
    wanted = found.wanted
    if wanted is None or (wanted.fingerprint, wanted.sinks) == (fingerprint(query), sinks):
        return ""
    return irreplaceable(query, wanted) if replace else changed(query, wanted, sinks)


def is_owners(found: Generations, owner: str, adopt: str) -> bool:
    """Whether a query's name belongs to `owner`, is free, or may be taken over from its owner, which is `adopt`."""
    return found.owner in ("", owner, adopt)


def irreplaceable(query: Query, wanted: Announcement) -> str:
    """Why a query can't take over from the one that was announced last (P12); empty if it can."""
    if query.has_table or announced_query(wanted).has_table:  # P17.8
        return (
            f"query {query.name!r} can't be replaced: one of both joins with a table, whose rows come from no window "
            "that could be filled again; give the new query another name"
        )
    if EmitOn.CLOSE in (query.answers.emit, announced_query(wanted).answers.emit):  # P16.7
        return (
            f"query {query.name!r} can't be replaced: with EMIT ON CLOSE, before or after, rows that are open would "
            "get no answer from either; give the new query another name, and end this one when its rows are closed"
        )
    return ""


def inputs_since(before: Query, topics: Topics, input_topics: Mapping[str, str]) -> dict[int, int]:
    """The input now, by the input of an earlier query with the same topic; input_topics: that query's, by stream."""
    earlier = Topics.for_query(before, 1, input_topics).inputs
    return {number: topics.inputs.index(topic) for number, topic in enumerate(earlier) if topic in topics.inputs}


def beginning_after(
    fresh: Beginning, takeover: Takeover, before: Query, query: Query, streams: Mapping[int, int]
) -> Beginning:
    """The beginning of a generation of `query` that takes over from one of `before`.

    streams: the input of `query`, by the input of `before` with the same topic
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
    """The query of a generation. Raises ConfigurationError if this version doesn't understand it.

    In earlier versions rows answered on arrival if the statement had no EMIT clause; the fingerprint shows this.
    """
    source = f"generation {announcement.generation} of the query, as its log has it"
    with suppress(ConfigurationError):
        earlier = parse_query(announcement.text, source, default_emit=EmitOn.ARRIVAL)
        if fingerprint(earlier) == announcement.fingerprint:
            return earlier
    return parse_query(announcement.text, source)


def announced_inputs(query: Query, announcement: Announcement, input_topics: Mapping[str, str]) -> Mapping[str, str]:
    """The topics of an announced query, by stream; the present topics if the announcement doesn't contain them."""
    names = (stream.name for stream in query.inputs)
    return dict(zip(names, announcement.inputs, strict=False)) if announcement.inputs else input_topics


def foreign(name: str, found: Generations, owner: str) -> str:
    """The message for a user whose query has a name that another owns."""
    return (
        f"the name {name!r} belongs to {found.owner} on this Kafka, and this is {owner}: give this query "
        f"another name. If {found.owner} is gone for good, take the name over: helm upgrade --install ... --set "
        f"query.adopt={found.owner}, spojoin up --adopt {found.owner}, or {ENV_PREFIX}ADOPT={found.owner}"
    )


def changed(query: Query, served: Announcement, sinks: int) -> str:
    """The message for a user who starts a query with another meaning, or more or fewer sinks, under the same name."""
    found = differences(announced_query(served), query)
    if served.sinks != sinks:
        found.append(f"its results have {served.sinks} partitions, and would have {sinks}")
    what = "; ".join(found) or "its meaning differs"
    return (
        f"query {query.name!r} is not the one that is served under this name, generation {served.generation}: {what}. "
        f"To replace it without losing a row: spojoin up --replace, helm upgrade --set-file query.text=FILE "
        f"--set query.replace=true, or {ENV_PREFIX}REPLACE=true; to serve both, give this one another name"
    )
