"""The page's two watchers, one of the store and one of the log: neither waits for the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import structlog

from spojoin.errors import BadData, Retryable
from spojoin.page.latest import (
    COUNTS,
    ROWS,
    AvroResults,
    Letter,
    ResultRows,
    Row,
    TopicTail,
    letters_of,
    result_rows,
    rows_of,
    worker_counts_of,
)
from spojoin.page.sightings import Observer, Rates, Sighting
from spojoin.page.state import Known
from spojoin.page.subject import Subject
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogReader, Store, StoreUnavailable
from spojoin.ports.shared_state import key
from spojoin.protocol.services import NEEDED
from spojoin.protocol.topology import Topic
from spojoin.telemetry.expected_services import Absences, marks_of
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.wellness import wellness_of

LOOK_S = 1.0
#: as many events as fit on a screen
EVENTS_MAX = 10
READY_POLL_S = 0.05

_log = structlog.get_logger(__name__)


class StoreWatch:
    """Watches the store; `sighting` is its last known content, `trouble` is why it can't be read now."""

    def __init__(self, store: Store, subject: Subject, clock: Clock) -> None:
        self.sighting: Sighting | None = None
        self.trouble: str | None = "Redis has not been asked yet"
        self._store = store
        self._clock = clock
        self._prefix = key(subject.query.name, "")
        self._observer = Observer(subject)

    def look(self) -> None:
        try:
            entries = self._store.scan(self._prefix)
            self.sighting = self._observer.take(entries, self._clock.monotonic_ms(), self._clock.wall_ms())
            self._note(None)
        except StoreUnavailable as error:
            self._note("Redis does not answer, so the services' state is not known", error)
        except BadData as error:
            self._note(str(error), error)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    def _note(self, trouble: str | None, reason: Exception | None = None) -> None:
        if trouble is not None and trouble != self.trouble:
            _log.warning("the store can't be read", reason=str(reason))
        self.trouble = trouble


class LatestNews(NamedTuple):
    """The latest results and dead letters, the records a second of their topics, and the worker count requested."""

    results: ResultRows
    letters: list[Letter]
    per_s: dict[Topic, float]
    workers: int | None


class LogWatch:
    """Watches the ends of the results and dead-letter topics; `news` is what it found last."""

    def __init__(self, log: Log[bytes], subject: Subject, clock: Clock, avro: AvroResults | None = None) -> None:
        self.news: LatestNews | None = None
        self.trouble: str | None = None
        self._log = log
        self._clock = clock
        self._output = subject.query.results.output
        rows_of_record = partial(rows_of, output=self._output, avro=avro)
        self._results: list[TopicTail[Row]] = [
            TopicTail(log, source, ROWS, rows_of_record) for source in subject.topics.inputs_of(Topic.RESULTS)
        ]
        self._letters = [
            TopicTail(log, subject.topics.dead_letters(stream), ROWS, letters_of)
            for stream in range(len(subject.topics.inputs))
        ]
        self._counts = TopicTail(log, LogPartition(subject.topics.name(Topic.CONTROL), 0), COUNTS, worker_counts_of)
        self._rates = Rates()
        self._reader: LogReader[bytes] | None = None

    def look(self) -> None:
        try:
            self._reader = self._reader or self._log.reader()
            for results_tail in self._results:
                results_tail.look(self._reader)
            for tail in self._letters:
                tail.look(self._reader)
            self._counts.look(self._reader)
            rows = max(1, ROWS // len(self._results))
            items = [item for tail in self._results for item in list(tail.items)[-rows:]]
            results = result_rows(items, self._output)
            self.news = LatestNews(results, self._newest(), self._per_s(), self._workers())
            self._note(None)
        except Retryable as error:
            self._close_reader()
            self._note("Kafka does not answer, so results and dead letters are not the latest", error)
        except BadData as error:
            self._note("a record of the results or the control topic can't be read", error)

    def close(self) -> None:
        """Close the connections."""
        self._close_reader()
        self._log.close()

    def _newest(self) -> list[Letter]:
        return sorted((letter for tail in self._letters for letter in tail.items), key=lambda x: -x.time_ms)[:ROWS]

    def _per_s(self) -> dict[Topic, float]:
        ends = {
            Topic.RESULTS: sum(tail.end or 0 for tail in self._results),
            Topic.DEAD: sum(tail.end or 0 for tail in self._letters),
        }
        for topic, end in ends.items():
            self._rates.note(topic, self._clock.monotonic_ms(), end)
        return {topic: rate for topic in ends if (rate := self._rates.per_s(topic)) is not None}

    def _workers(self) -> int | None:
        """The number of workers in the worker count with the largest version."""
        return max(((each.version, each.workers) for each in self._counts.items), default=(0, None))[1]

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _note(self, trouble: str | None, reason: Exception | None = None) -> None:
        if trouble is not None and trouble != self.trouble:
            _log.warning("the log can't be read", reason=str(reason))
        self.trouble = trouble


class Watches:
    """Both watchers, each in a separate thread within the block."""

    def __init__(self, subject: Subject, store: StoreWatch, log: LogWatch, clock: Clock, stall_ms_max: int) -> None:
        self._subject = subject
        self._clock = clock
        self._store = store
        self._log = log
        self._stop = threading.Event()
        self._absences = Absences()
        self._events: tuple[tuple[int, str], ...] = ()
        self._healths = [Health(clock, stall_ms_max) for _ in range(2)]
        self._threads = [
            threading.Thread(target=self._run, args=(look, health), name=name, daemon=True)
            for name, look, health in zip(("store", "log"), (self.look_at_store, log.look), self._healths, strict=True)
        ]

    def __enter__(self) -> Self:
        """Start the threads, which look once a second."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_ready(self) -> None:
        """Return when both have looked; each look ends by its timeouts."""
        while not self.ready()[0]:
            self._clock.sleep(READY_POLL_S)

    def close(self) -> None:
        """Stop looking and close the connections."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._store.close()
        self._log.close()

    def look_at_store(self) -> None:
        """Ask the store once, and note which services have been away for long and which are back."""
        self._store.look()
        known, now_ms = self.known(), self._clock.monotonic_ms()
        if not known.is_store_up or known.sighting is None or not known.sighting.instances:
            self._absences.excuse(now_ms)
            return
        marks = marks_of((each.status.service, each.status.wall_ms) for each in known.sighting.instances)
        needed = [service for role in NEEDED for service in known.expected(role)]
        for change in self._absences.take(needed, marks, now_ms):
            self._events = ((known.wall_ms, change.sentence), *self._events)[:EVENTS_MAX]
            report = _log.info if change.is_back else _log.warning
            report(change.sentence, reason="ServiceBack" if change.is_back else "ServiceGone", about=change.service)

    def known(self) -> Known:
        """All that both watchers know now."""
        news = self._log.news
        return Known(
            subject=self._subject,
            wall_ms=self._clock.wall_ms(),
            sighting=self._store.sighting,
            is_store_up=self._store.trouble is None,
            results=news.results if news else None,
            letters=news.letters if news else None,
            out_per_s=news.per_s if news else None,
            workers=news.workers if news else None,
            troubles=[text for text in (self._store.trouble, self._log.trouble) if text],
            events=self._events,
        )

    def live(self) -> tuple[bool, str]:
        """Whether both watchers completed a turn lately, and a sentence."""
        return _first_no(health.live() for health in self._healths)

    def ready(self) -> tuple[bool, str]:
        """Whether both have looked, regardless of the result: the page also shows what is away."""
        return _first_no(health.ready() for health in self._healths)

    def well(self) -> tuple[bool, str]:
        """Whether the query is well, and a sentence; while the store is away, the query counts as well."""
        is_ready, said = self.ready()
        seen = self._store.sighting
        if not is_ready or seen is None:
            return is_ready and self._store.trouble is not None, self._store.trouble or said
        if self._store.trouble is not None:
            return True, self._store.trouble
        found = wellness_of((each.status for each in seen.instances if not each.is_gone), seen.expected)
        return found.is_well, f"{self._subject.query.name}: {found.sentence}"

    def _run(self, look: Callable[[], None], health: Health) -> None:
        health.waits_for = "the first look"
        while not self._stop.is_set():
            look()
            health.is_ready = True
            health.tick()
            self._stop.wait(LOOK_S)


def _first_no(said: Iterator[tuple[bool, str]]) -> tuple[bool, str]:
    answers: Sequence[tuple[bool, str]] = list(said)
    return next((answer for answer in answers if not answer[0]), answers[0])
