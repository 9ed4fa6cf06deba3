"""Begins the next generation of a query where its results end, after topics were lost or on another Kafka (rule P12).

Each frame's last result records how far the inputs were answered. So results and inputs are enough: the windows are
filled from the inputs again, no row is left out, and none is answered twice, except those that `Restored.again` counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord, records_between
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import (
    Beginning,
    Generations,
    answered_places,
    forgetting,
    order_so_far,
    takeover_behind,
)
from spojoin.protocol.result_partitions import partitions_of
from spojoin.protocol.topology import FIRST_GENERATION, Topic, topic_name
from spojoin.query.fingerprint import fingerprint
from spojoin.runtime.generations import (
    GenerationsTopic,
    announced_query,
    beginning_after,
    inputs_since,
    irreplaceable,
)
from spojoin.runtime.service import ANNOUNCER_MS
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode
from spojoin.wire.records import Announcement, Frame, Takeover
from spojoin.wire.results import BEGIN, ResultProgress, progress, takeover_of

#: How many records the first look at the end of the results reads, and the factor by which each further look grows.
LOOK_RECORDS, LOOK_GROWTH = 64, 8
#: How long to wait for running services to hand over by themselves: their router first waits for another to fence it.
HANDOVER_S = ANNOUNCER_MS / 1000 + 10.0
#: How often to look in the topic of generations whether they did.
POLL_S = 0.2
_NOTHING_BEFORE = Takeover(FIRST_GENERATION + 1, FIRST_GENERATION, {}, (), {})


@dataclass(frozen=True, slots=True)
class Restored:
    """The generation that was begun.

    source: where reading of each input continues, by topic and partition
    again: how many answers may come twice
    emptied: inputs that were created anew, of which every row is taken
    is_by_services: whether running services handed over by themselves
    """

    generation: int
    source: Mapping[str, str]
    again: int = 0
    emptied: tuple[str, ...] = ()
    is_by_services: bool = False


@dataclass(frozen=True, slots=True)
class ResultsSoFar:
    """The end of the results: the last message's progress, and the last takeover; None if there is none.

    ahead: of several partitions, how many answers are out behind that place, which is that of the last one
    """

    last: ResultProgress | None = None
    takeover: Takeover | None = None
    ahead: int = 0


@dataclass(slots=True)
class Restoration:
    """The restoration of one query. old: the Kafka from which it is moved; None if it stays."""

    log: Log[bytes]
    query: Query
    input_topics: Mapping[str, str]
    old: Log[bytes] | None = None
    _sinks: int = field(default=1, init=False)

    def begin(self, *, accepts_again: bool = False) -> Restored:
        """Begin the next generation. Raises ConfigurationError if it can't be exact and that isn't accepted."""
        query, before = self.query, self.old or self.log
        found, ended = generations_of(before, query), results_so_far(before, query)
        number = max(found.current_number, 0 if ended.last is None else ended.last.generation)
        self._check(found)
        wanted = found.wanted or ended.last
        self._sinks = 1 if wanted is None else wanted.sinks
        topics = Topics.for_query(query, 1, self.input_topics, number)
        takeover = self._takeover(before, topics, found, ended)
        again = _answers_again(ended, takeover)
        if again and not accepts_again:
            raise ConfigurationError(
                f"results end in the middle of a frame, and up to {again:,} answers would come twice: end the services "
                "and ask again when they have stood still, or accept it with --answers-again"
            )
        takeover, emptied = self._placed(before, topics, takeover)
        source = {f"{topics.inputs[s]}/{p}": f"{at.offset}" for (s, p), at in sorted(takeover.source.items())}
        restored = Restored(number + 1, source, again, emptied)
        by_services = self._announce(number + 1, ended)
        if not by_services:
            self._hand_over(takeover, number)
        return replace(restored, is_by_services=by_services)

    def _check(self, found: Generations) -> None:
        """Check that the query is the one whose results are continued, and that it may be replaced."""
        wanted = found.wanted
        if wanted is not None and wanted.fingerprint != fingerprint(self.query):
            raise ConfigurationError(
                f"query {self.query.name!r} is not the one that is served under this name: restore with that one, and "
                "replace it afterwards"
            )
        if refusal := irreplaceable(self.query, wanted or self._announcement(FIRST_GENERATION)):
            raise ConfigurationError(refusal)

    def _takeover(self, log: Log[bytes], topics: Topics, found: Generations, ended: ResultsSoFar) -> Takeover:
        """Where the generation ends, by its results; without any, where it began, or what its log still shows."""
        last, earlier = ended.last, found.takeover
        answered = 0 if last is None else last.generation
        has_begun = earlier is not None and earlier.generation == answered
        if ended.takeover is not None and ended.takeover.from_generation == answered:
            return self._merged(ended.takeover, found)
        if earlier is not None and (has_begun or (last is not None and earlier.generation > answered)):
            return replace(earlier, generation=earlier.generation + 1, from_generation=earlier.generation)
        if last is None:
            first = _first_frame(log, topics)
            if first is None:
                return _NOTHING_BEFORE
            return takeover_behind(first, topics.generation, self.query.order.lateness_us)
        raise ConfigurationError(
            f"the results of {self.query.name!r} don't say how far its inputs are answered: an earlier version wrote "
            "them, and this one hasn't written any yet; serve the query under another name"
        )

    def _merged(self, takeover: Takeover, found: Generations) -> Takeover:
        """The takeover with rows that only earlier generations answered, if the topic of generations still has them."""
        begun = Beginning()
        earlier = found.takeover
        if earlier is not None and earlier.generation == takeover.from_generation:
            before = announced_query(found.announced(earlier.from_generation))
            streams = inputs_since(before, Topics.for_query(self.query, 1, self.input_topics), self.input_topics)
            begun = beginning_after(begun, earlier, before, self.query, streams)
        return replace(
            takeover,
            source=answered_places(takeover.source, begun),
            checkpoint=order_so_far(takeover.checkpoint, begun),
            counts=tuple(max(n, begun.count(stream)) for stream, n in enumerate(takeover.counts)),
            lateness_us=max(takeover.lateness_us, begun.lateness_us),
            numbered=max(takeover.numbered, begun.numbered),
        )

    def _placed(self, before: Log[bytes], topics: Topics, takeover: Takeover) -> tuple[Takeover, tuple[str, ...]]:
        """The takeover with places in the inputs as they are here, and the inputs that were created anew."""
        here = {key: LogPartition(topics.inputs[key[0]], key[1]) for key in takeover.source}
        if self.old is not None:
            _check_movable(self.query, takeover)
            moved = {
                key: replace(at, offset=place_in_copy(before, self.log, here[key], at.offset))
                for key, at in takeover.source.items()
            }
            return replace(takeover, source=moved), ()
        emptied = {key for key, at in takeover.source.items() if at.offset > self.log.end(here[key])}
        source = {key: at for key, at in takeover.source.items() if key not in emptied}
        checkpoint = forgetting(takeover.checkpoint, emptied)
        names = tuple(f"{here[key].topic}/{key[1]}" for key in sorted(emptied))
        return replace(takeover, source=source, checkpoint=checkpoint), names

    def _announce(self, number: int, ended: ResultsSoFar) -> bool:
        """Announce the generation, and those whose announcements were lost; return whether services took over.

        Services that can continue hand over by themselves, exactly; those whose topics have lost records don't.
        """
        topic = GenerationsTopic(self.log, self.query.name)
        self.log.create_topics({topic_name(self.query.name, Topic.GENERATIONS): 1})
        for each in range(topic.read().next_number, number + 1):
            topic.write_record(self._announcement(each))
        deadline = time.monotonic() + HANDOVER_S
        while time.monotonic() < deadline:
            if topic.read().current_number >= number:
                return True
            time.sleep(POLL_S)
        if results_so_far(self.old or self.log, self.query) != ended:
            raise ConfigurationError(
                f"results of {self.query.name!r} still move: end its services, and ask again once they have ended"
            )
        return False

    def _announcement(self, number: int) -> Announcement:
        """An announcement without an owner, so that the name's owner stays the same."""
        inputs = Topics.for_query(self.query, 1, self.input_topics).inputs
        text, mark = self.query.text, fingerprint(self.query)
        return Announcement(number, mark, text, Backfill.WINDOW.value, inputs, sinks=self._sinks)

    def _hand_over(self, takeover: Takeover, number: int) -> None:
        topic = GenerationsTopic(self.log, self.query.name)
        for each in range(topic.read().current_number, number + 1):
            topic.write_record(replace(takeover, generation=each + 1, from_generation=each))


def generations_of(log: Log[bytes], query: Query) -> Generations:
    """The content of the topic of generations; empty if there is no such topic. Raises LogUnavailable."""
    if not log.partitions(topic_name(query.name, Topic.GENERATIONS)):
        return Generations()
    return GenerationsTopic(log, query.name).read()


def results_so_far(log: Log[bytes], query: Query) -> ResultsSoFar:
    """The end of a query's results. Raises LogUnavailable."""
    topic = topic_name(query.name, Topic.RESULTS)
    sources = [LogPartition(topic, number) for number in range(log.partitions(topic))]
    bounds, depth, found = [log.bounds(source) for source in sources], LOOK_RECORDS, ResultsSoFar()
    while sources and found.takeover is None:
        firsts = [max(each.earliest, each.end - depth) for each in bounds]
        found = _ended_together(
            [
                [_read(record) for record in records_between(log, source, first, each.end)]
                for source, first, each in zip(sources, firsts, bounds, strict=True)
            ]
        )
        if firsts == [each.earliest for each in bounds]:
            break
        depth *= LOOK_GROWTH
    return found


class _Result(NamedTuple):
    begin: int
    progress: ResultProgress
    takeover: Takeover | None


def _read(record: LogRecord[bytes]) -> _Result:
    headers = dict(record.headers)
    return _Result(int(headers[BEGIN]), progress(headers), takeover_of(headers))


def _ended_together(partitions: Sequence[Sequence[_Result]]) -> ResultsSoFar:
    """The end of the last generation's results, in all of its partitions (P20.4)."""
    newest = max((result.progress for results in partitions for result in results), key=_rank, default=None)
    if newest is None:
        return ResultsSoFar()
    if newest.sinks == 1:
        return _ended(partitions[0])
    own = [
        [result for result in results if result.progress.generation == newest.generation]
        for results in partitions[: newest.sinks]
    ]
    shares = partitions_of(newest.sinks, by_key=newest.by_key)
    owed = [
        max((result.progress.following for result in results), default=share.first)
        for share, results in zip(shares, own, strict=True)
    ]
    frame_id = min(owed)[0]
    all_own = [result for results in own for result in results]
    ahead: dict[int, int] = {}  # by frame: the positions that some partition has
    for _, at, _ in all_own:
        if at.frame_id >= frame_id:
            ahead[at.frame_id] = max(at.position, ahead.get(at.frame_id, 0))
    takeovers = (r.takeover for r in all_own if r.takeover and r.progress.following[0] == frame_id - 1 + newest.step)
    last = newest._replace(
        frame_id=max(frame_id - 1, 0), position=0, is_last=frame_id > 0, seq=None, row=None, matches=0
    )
    return ResultsSoFar(last, next(takeovers, None), sum(ahead.values()))


def _ended(results: Sequence[_Result]) -> ResultsSoFar:
    found = ResultsSoFar()
    for _, at, takeover in results:
        if found.last is None or _rank(at) >= _rank(found.last):
            found = ResultsSoFar(at, takeover or found.takeover)
    return found


def _rank(at: ResultProgress) -> tuple[int, int, bool, int]:
    return at.generation, at.frame_id, at.is_last, at.position


def _first_frame(log: Log[bytes], topics: Topics) -> Frame | None:
    """The first frame that the log holds, whose results were out; None if the log still holds its very first one."""
    source = LogPartition(topics.name(Topic.FRAMES), 0)
    if not log.partitions(source.topic):
        raise ConfigurationError(
            f"topics results and frames of {topics.query!r} are lost, and with them how far its inputs are answered: "
            "serve the query under another name; it answers all rows that its inputs hold"
        )
    bounds = log.bounds(source)
    for record in records_between(log, source, bounds.earliest, bounds.end):
        found = decode(record.value)
        if isinstance(found, Frame):
            return found if found.frame_id else None
    return None


def _answers_again(ended: ResultsSoFar, takeover: Takeover) -> int:
    """How many answers after the takeover's place are out."""
    last = ended.last
    if ended.ahead:
        return ended.ahead
    if last is None or last.is_last or takeover.from_generation != last.generation:
        return 0
    return last.position if last.seq is None else max(last.position, 1)  # a message without a row answers none


def _check_movable(query: Query, takeover: Takeover) -> None:
    """Refuse event-time order: rows after the inputs' places may be answered, and only old offsets identify them."""
    if takeover.checkpoint:
        raise ConfigurationError(
            f"query {query.name!r} orders by event time, so that no place of each input divides its answered rows: end "
            "its producers, wait until all is answered, and serve it on the other Kafka under another name"
        )


#: How many messages before a place must be the same in the copy.
ALIKE = 200

#: The parts of a message that a copy keeps.
Content = tuple[int, bytes | None, bytes]


def place_in_copy(old: Log[bytes], new: Log[bytes], source: LogPartition, offset: int) -> int:
    """The offset in `new` of the message that has `offset` in `old`, found by the messages before it.

    Raises ConfigurationError if the copy doesn't reach that far, or has these messages more than once; LogUnavailable.
    """
    first = max(old.bounds(source).earliest, offset - ALIKE)
    before = deque(map(_kept_content, records_between(old, source, first, offset)), ALIKE)
    bounds = new.bounds(source)
    if not before:
        return bounds.earliest
    seen: deque[Content] = deque(maxlen=len(before))
    found = []
    for record in records_between(new, source, bounds.earliest, bounds.end):
        seen.append(_kept_content(record))
        if seen[-1] == before[-1] and seen == before:
            found.append(record.offset + 1)
    if len(found) == 1:
        return found[0]
    what = f"the copy of {source.topic}, partition {source.partition},"
    if found:
        raise ConfigurationError(f"{what} holds the {len(before)} messages before offset {offset:,} {len(found)} times")
    raise ConfigurationError(
        f"{what} doesn't hold the {len(before)} messages before offset {offset:,}: wait until all is copied, with "
        "keys, values and timestamps, and ask again"
    )


def _kept_content(record: LogRecord[bytes]) -> Content:
    return record.timestamp_ms, record.key, record.value
