"""The predictor as a Faust service: frames in, plans out. Nothing waits for it.

Each life reads the log from its earliest retained record (nothing is ever committed), so it sees the same records as
every other reader. Earlier counts are lost, which doesn't matter for advice.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from dataclasses import replace

import faust
import structlog
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from faust.exceptions import FaustError

from spojoin.errors import Retryable, SpoJoinError
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka_client import CLIENT_LOGGER
from spojoin.protocol.access import consumer_group, seen_by
from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topic_config import TopicKind
from spojoin.protocol.topology import MESSAGE_BYTES_MAX, Role, Topic
from spojoin.query.fingerprint import fingerprint
from spojoin.roles.predictor.faust_kafka import make_app
from spojoin.roles.predictor.machine import PredictorMachine
from spojoin.runtime.generations import GenerationChooser, Serving, goes_on
from spojoin.runtime.inflow import check_query
from spojoin.runtime.loop_spec import Surroundings
from spojoin.runtime.query_to_serve import QueryToServe
from spojoin.runtime.service import ANNOUNCER, BACKOFF_S_MAX, BACKOFF_S_MIN, create_topics, expect
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Frame, HotKeys

#: the time between checks of the state, and the number of checks until the generations topic is read again
TICK_S, LOOKS = 0.25, 8
#: Faust warns about streams that commit nothing for this long; this one never commits
NEVER_S = 1e9
#: how long Faust may take to join its group, and to disconnect from the broker
START_TIMEOUT_S, STOP_TIMEOUT_S = 60.0, 10.0

_log = structlog.get_logger(__name__)


class LifeEnded(Retryable):
    """Faust gave up; a new life may succeed."""


class PredictorService:
    """Runs one life of the machine after another until `stop` is set."""

    def __init__(self, found: QueryToServe, settings: Settings, around: Surroundings) -> None:
        self._settings = settings
        self._around = around
        self._office = GenerationChooser(
            around.log,
            found.query,
            settings,
            pulse=around.health.tick,
            judged=found.judging(around.reporter.judged),
        )
        self._shared = Topics.for_query(found.query, settings.workers_max, settings.input_topics)

    async def run(self, stop: asyncio.Event) -> None:
        """Return once `stop` is set. Raises BadData if a record of the log can't be read."""
        backoff_s = BACKOFF_S_MIN
        health = self._around.health
        while not stop.is_set():
            try:
                serving = await asyncio.to_thread(self._serving)
                if serving is None:
                    health.is_ready, health.waits_for = False, health.refusal or ANNOUNCER
                    health.tick()
                    await _wait(stop, LOOKS * TICK_S if health.refusal else TICK_S)
                else:
                    await self._live(serving, stop)
            except (Retryable, KafkaError, FaustError) as error:
                backoff_s = BACKOFF_S_MIN if health.is_ready else min(2 * backoff_s, BACKOFF_S_MAX)
                health.is_ready, health.waits_for = False, str(error)
                self._around.metrics.retries.labels(type(error).__name__).inc()
                _log.warning("starting over", reason=str(error), wait_s=backoff_s)
                await _wait(stop, backoff_s)
                health.tick()

    def _serving(self) -> Serving | None:
        """The generation to follow, after creating its topics (rule P12)."""
        log = self._around.log
        log.create_topics(
            {self._shared.name(Topic.GENERATIONS): 1}, self._settings.topic_configs.for_kind(TopicKind.INTERNAL)
        )
        serving = self._office.serving()
        if serving is not None:
            settings = self._settings
            create_topics(log, self._topics(serving), settings.topic_configs, seen_by(Role.PREDICTOR))
            expect(self._around.reporter, (Role.PREDICTOR,), serving.query, settings)
        return serving

    def _topics(self, serving: Serving) -> Topics:
        return replace(self._shared, predicates=len(serving.query.predicates), generation=serving.generation)

    async def _live(self, serving: Serving, stop: asyncio.Event) -> None:
        # Faust creates a folder even if it has nothing to store.
        with tempfile.TemporaryDirectory(prefix="spojoin-predictor-") as folder:
            life = Life(serving.query, self._settings, self._topics(serving), self._around, folder)
            try:
                await life.start()
                while not stop.is_set() and await asyncio.to_thread(goes_on, self._office, serving):
                    for _ in range(LOOKS):
                        await life.look()
                        await _wait(stop, TICK_S)
            finally:
                await life.stop()


class Life:
    """One Faust app and one machine."""

    def __init__(self, query: Query, settings: Settings, topics: Topics, around: Surroundings, folder: str) -> None:
        self._query = query
        self._around = around
        self._machine = PredictorMachine(query, START)
        self._fingerprint = fingerprint(query)
        self._source = LogPartition(topics.name(Topic.FRAMES), 0)
        bounds = around.log.bounds(self._source)
        self._next_offset = bounds.earliest
        self._caught_up_at = self._due = bounds.end
        self._seen: tuple[int | None, int] | None = None
        self._is_busy = False
        self._failure: SpoJoinError | None = None
        self._app = make_app(
            consumer_group(query.name, Role.PREDICTOR),
            settings.bootstrap_servers,
            settings.kafka_properties(),
            MESSAGE_BYTES_MAX,
            datadir=folder,
            broker_commit_livelock_soft_timeout=NEVER_S,
        )
        self._plans = self._topic(topics.name(Topic.PLAN))
        self._app.agent(self._topic(self._source.topic), name="frames")(self._follow)

    def _topic(self, name: str) -> faust.TopicT:
        # Faust would keep acknowledged offsets until they are committed, which they never are.
        return self._app.topic(name, value_type=bytes, value_serializer="raw", partitions=1, acks=False)

    async def start(self) -> None:
        """Join and begin to read."""
        self._around.health.waits_for = "the broker"
        self._around.metrics.replay_began(self._around.clock.monotonic_ms())
        joining = asyncio.ensure_future(asyncio.wait_for(self._app.start(), START_TIMEOUT_S))
        try:
            while not joining.done():  # a group waits for a killed member: meanwhile this instance must report
                await self._report(self._next_offset)
                await asyncio.wait([joining], timeout=TICK_S)
            await joining
        finally:
            joining.cancel()

    async def stop(self) -> None:
        """Disconnect from the broker."""
        try:
            await asyncio.wait_for(self._app.stop(), STOP_TIMEOUT_S)
        except TimeoutError:
            _log.warning("Faust did not end in time", timeout_s=STOP_TIMEOUT_S)

    async def look(self) -> None:
        """Report the state. Raises what ended this life, if anything did."""
        if self._failure is not None:
            raise self._failure
        if self._app.crashed or self._app.should_stop:
            raise LifeEnded(f"Faust ended: {self._app.crash_reason!r}")
        position = await self._position()
        health, metrics = self._around.health, self._around.metrics
        if position >= self._caught_up_at and not health.is_ready:
            metrics.replay_ended(self._around.clock.monotonic_ms())
        health.is_ready = position >= self._caught_up_at
        health.waits_for = f"frames: at offset {position} of {self._caught_up_at}"
        await self._report(position)

    async def _report(self, position: int) -> None:
        """Report once a second. Records since the last report don't count as lag: they are fetched at intervals."""
        metrics, reporter = self._around.metrics, self._around.reporter
        self._around.health.tick()
        if not reporter.is_due():
            return
        metrics.lag.labels(self._source.topic, "0").set(max(0, self._due - position))
        self._due = (await asyncio.to_thread(self._around.log.bounds, self._source)).end
        for predicate, share in zip(self._query.predicates, self._machine.selectivities(), strict=True):
            metrics.selectivity.labels(predicate.text).set(share)
        await asyncio.to_thread(reporter.publish, {f"{Topic.FRAMES.value}/0": position}, START)

    async def _position(self) -> int:
        """The next offset: after the last record taken, and after transaction markers that follow it."""
        place = faust.types.TP(*self._source)
        if place not in self._app.consumer.assignment():
            return self._next_offset
        fetched = await self._app.consumer.position(place)
        # Fetched records may wait in Faust's queues; if nothing moves from one look to the next, none do.
        seen, self._seen = self._seen, (fetched, self._next_offset)
        if fetched is not None and not self._is_busy and seen == self._seen:
            return max(fetched, self._next_offset)
        return self._next_offset

    async def _follow(self, stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            self._is_busy = True
            try:
                await self._take(event.message.offset, event.message.value)
            except SpoJoinError as error:
                self._failure = error
                return
            self._is_busy = False

    async def _take(self, offset: int, value: bytes) -> None:
        self._around.metrics.read.count(Topic.FRAMES.value, len(value))
        record = decode(value)
        check_query(self._source.topic, offset, record, self._fingerprint)
        for action in self._machine.on_record(Topic.FRAMES, 0, offset, record):
            if isinstance(action, Emit):
                await self._emit(action)
        if isinstance(record, Frame):
            self._around.metrics.head_frame.set(record.frame_id + 1)
            self._around.metrics.epochs.set(record.epoch + 1)
        self._next_offset = offset + 1

    async def _emit(self, action: Emit) -> None:
        value = encode(action.record)
        # The second await is for the broker's acknowledgement, so that at most one plan is under way.
        await (await self._plans.send(value=value))
        self._around.metrics.written.count(Topic.PLAN.value, len(value))
        if isinstance(action.record, HotKeys):
            self._count_hot(action.record)

    def _count_hot(self, plan: HotKeys) -> None:
        for number, (name, stream) in enumerate(zip(self._query.stream_names, self._query.streams, strict=True)):
            for slot, column in enumerate(stream.keys):
                codes, _ = plan.hot.get((number, slot), ((), ()))
                self._around.metrics.hot_keys.labels(name, column.text).set(len(codes))


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def quiet_faust() -> None:
    """Send Faust's and its client's log lines where librdkafka's go, and only warnings and errors."""
    for name in ("faust", "mode", "aiokafka"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.handlers = list(CLIENT_LOGGER.handlers)
