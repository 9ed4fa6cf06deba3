"""A service from its settings to its end: wiring, signals, supervision, exit status."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from spojoin.errors import ConfigurationError, Fenced, Retryable
from spojoin.model import Query
from spojoin.ports.interfaces import Log, SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.access import TRANSACTIONAL, transactional_id
from spojoin.protocol.packing import group_name, parse_packing, touched, with_standbys
from spojoin.protocol.services import role_of, without_workers
from spojoin.protocol.topic_config import TopicConfigs, TopicKind
from spojoin.protocol.topology import FIRST_GENERATION, Role, Topic, presence_partition
from spojoin.query.fingerprint import fingerprint
from spojoin.runtime.generations import Announcing, GenerationChooser, Serving, goes_on
from spojoin.runtime.loop import Loop
from spojoin.runtime.loop_spec import LoopSpec, Surroundings
from spojoin.runtime.process import end_when_changed, exit_status, limit_arenas, loaded_objects_spared, stop_on_signals
from spojoin.runtime.query_to_serve import choose_query
from spojoin.runtime.settings import ENV_PREFIX, Settings
from spojoin.runtime.topics import Topics, create_kept
from spojoin.runtime.wiring import (
    Wire,
    Wiring,
    alone,
    awaited_topics,
    edge_with,
    instance_of,
    intakes_of,
    packed,
    takes_over,
)
from spojoin.telemetry import log_lines
from spojoin.telemetry.health_server import Health, HealthServer
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Identity, Reporter
from spojoin.wire.result_writers import FramesWriter

if TYPE_CHECKING:
    from spojoin.ports.redis_store import RedisStore


#: the pause between lives of a machine; it doubles from the first value to the last while lives keep failing
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.1, 5.0

#: how long a fenced instance waits for the signal to end: until then it isn't restarted, and so can't fence the other
FENCED_S = 20

#: how often services look for another generation, and for the takeover by an announced one
GENERATION_MS, TAKEOVER_MS = 500.0, 50.0
#: how often they look for the first announcement
ANNOUNCEMENT_S = 0.1
#: how long a router continues after another one has announced a generation and should end the previous one
ANNOUNCER_MS = 20_000.0
#: what services wait for before the first announcement
ANNOUNCER = "the router, which announces the query to serve"
#: how often a router looks for topics of past generations
CLEAN_UP_MS = 60_000.0

#: how often to read the result position from the store: a router paces its frames by it, a worker notices by it that
#: another row is silent, others drop state by it
RESULT_POSITION_MS, ROUTER_RESULT_POSITION_MS, WORKER_RESULT_POSITION_MS = 250.0, 15.0, 40.0

_log = structlog.get_logger(__name__)


def run(wires: Mapping[Role, Wire], settings: Settings) -> int:
    """Run the wired roles in one process until SIGTERM or SIGINT; return its exit status.

    0: ended by a signal; 2: settings or query are wrong; 3: a record or the log is unusable; 4: another instance of the
    role has taken over. The reason is the last line on stderr.
    """
    roles = tuple(wires)
    log_lines.begin_process(group_name(roles))
    if len(roles) > 1 and roles not in parse_packing(settings.packing).groups:
        raise ConfigurationError(
            f"this process is {group_name(roles)}, and setting packing is {settings.packing}: set "
            f"{ENV_PREFIX}PACKING to the same packing for all services"
        )

    def wire(serving: Serving) -> Wiring:
        return (packed if len(roles) > 1 else alone)(wires, serving, settings)

    return exit_status(lambda: _serve(roles, settings, wire))


def _serve(roles: tuple[Role, ...], settings: Settings, wire: Callable[[Serving], Wiring]) -> None:
    limit_arenas()
    sinks = settings.sinks if Role.SINK in roles else 1  # the others learn it from the generation
    found = choose_query(
        settings, lambda query: wire(Serving(query, sinks=sinks))
    )  # a mistake ends the start before anything is opened
    query, wiring = found.query, wire(Serving(found.query, sinks=sinks))
    service = wiring.service
    log_lines.configure(settings.log_level, settings.named(service), query.name)
    with ExitStack() as stack, stop_on_signals() as stop:
        world = open_world(roles, settings.named(service), query.name, settings, stack)

        def prepare(topics: Topics) -> None:
            create_topics(world.log, topics, settings.topic_configs, awaited_topics(settings))

        office = GenerationChooser(
            world.log,
            query,
            settings,
            announcing=Announcing(wiring.parse, prepare) if wiring.parse and Role.ROUTER in roles else None,
            pulse=world.health.tick,
            judged=found.judging(world.reporter.judged),
        )
        try:
            _supervise(ServiceRun(roles, query, settings, wire, world, office), stop)
        except Fenced:
            world.metrics.fenced.inc()
            raise


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A running service: roles of a query, with its settings, over its ports.

    was_fenced: whether another instance has taken the place of this process before
    """

    roles: tuple[Role, ...]
    query: Query
    settings: Settings
    wire: Callable[[Serving], Wiring]
    world: Surroundings
    office: GenerationChooser
    was_fenced: bool = False

    def spec(self, serving: Serving) -> LoopSpec:
        """How the loop runs a generation."""
        wiring, settings = self.wire(serving), self.settings
        edge, presence = edge_with(self.roles, settings), None
        waits = takes_over(self.roles, settings)
        if settings.standbys:
            edge = replace(with_standbys(edge), writes=(*edge.writes, Topic.PRESENCE))
            presence = presence_partition(wiring.service)
        return LoopSpec(
            roles=self.roles,
            edge=edge,
            presence=presence,
            topics=serving.topics(settings, _logical_ands(self.roles, settings), intakes_of(self.roles, settings)),
            machine_factory=(
                instance_of(wiring, settings, is_heir=not self.was_fenced) if waits else wiring.machine_factory
            ),
            takes_over=waits,
            transactional_ids=self._transactional_ids(wiring),
            result_writer=wiring.result_writer or FramesWriter(),
            result_key=serving.query.results.key,
            tick_ms=wiring.tick_ms,
            result_position_ms=self._result_position_ms,
            credits_frames=settings.credits_frames if self.writes_log else 0,
            drain_ms=settings.drain_ms if Role.POJOIN in self.roles else 0,
            parse=wiring.parse,
            originals=wiring.originals,
            table=wiring.table,
            fingerprint=fingerprint(serving.query),
            share=wiring.share,
        )

    @property
    def writes_log(self) -> bool:
        """Whether the router is in this process."""
        return Role.ROUTER in self.roles

    @property
    def _result_position_ms(self) -> float:
        """How often to read the result position: often for a router or worker, unless its own process moves it."""
        if Role.SINK in self.roles:
            return RESULT_POSITION_MS
        if self.writes_log:
            return ROUTER_RESULT_POSITION_MS
        return WORKER_RESULT_POSITION_MS if Role.POJOIN in self.roles else RESULT_POSITION_MS

    def _transactional_ids(self, wiring: Wiring) -> dict[Topic, str]:
        settings = self.settings
        return {
            topic: transactional_id(self.query.name, wiring.service if role_of(wiring.service) == role else role.value)
            for role, topic in TRANSACTIONAL.items()
            if role in self.roles and settings.transactions and (role is Role.SINK or settings.router_transactions)
        }


def _store(url: str) -> RedisStore:
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415  (commands that read topics need no Redis)

    return RedisStore(url)


def open_world(roles: tuple[Role, ...], service: str, query: str, settings: Settings, stack: ExitStack) -> Surroundings:
    """The ports and observers of a service, open until `stack` closes."""
    end_when_changed(settings.secrets_folders)
    clock = SystemClock()
    metrics = Metrics({"query": query, "role": group_name(roles), "service_name": service})
    health = Health(clock, settings.stall_ms_max)
    server = stack.enter_context(HealthServer(settings.metrics_host, settings.metrics_port, health, metrics.registry))
    store_url = settings.store_url()
    store = _store(store_url) if store_url else None
    if store is not None:
        stack.callback(store.close)
    log = KafkaLog(
        KafkaConfig(
            settings.bootstrap_servers,
            settings.kafka_properties(),
            settings.compression,
            on_error=lambda error: metrics.kafka_errors.labels(error.name()).inc(),
            on_traffic=metrics.kafka_traffic.add,
        )
    )
    stack.callback(log.close)
    shared = SharedState(store, query, clock, metrics.store_failures)
    reporter = Reporter(Identity(roles, service, query, server.port), shared, clock, metrics, health)
    _log.info("started", metrics=f"http://{settings.metrics_host}:{server.port}/metrics", query=query)
    return Surroundings(log, shared, clock, metrics, health, reporter)


def expect(reporter: Reporter, roles: tuple[Role, ...], query: Query, settings: Settings, sinks: int = 1) -> None:
    """Report which services should run: joiners report the number of joiners, the router that of workers at first.

    The router also reports the number of logical ANDs. Reports of these numbers by other services are ignored.
    """
    joiners = settings.joiners if roles == (Role.MUTABLE,) else 1
    workers = settings.workers if Role.ROUTER in roles else 1
    logical_ands, intakes = _logical_ands(roles, settings), intakes_of(roles, settings)
    needs = without_workers(query, joiners, settings.packing, logical_ands, sinks, intakes)
    reporter.expect(needs, workers, settings.workers_packed(), 1 + settings.standbys)


def _logical_ands(roles: tuple[Role, ...], settings: Settings) -> int:
    """The number of logical ANDs; if they are apart, only they and the router know it, so others needn't restart."""
    knows = not {Role.ROUTER, Role.LOGICAL_AND}.isdisjoint(roles) or settings.has_answerers
    return settings.mutable_reporters() if knows else 1


def create_topics(
    log: Log[bytes], topics: Topics, configs: TopicConfigs | None = None, among: Collection[Topic] = tuple(Topic)
) -> None:
    """Make sure that all or some of a query's own topics exist; inputs belong to the users."""
    configs = configs or TopicConfigs()
    log.create_topics(topics.trimmed(among), configs.for_kind(TopicKind.INTERNAL))
    create_kept(log, topics, configs, among)


def _supervise(charge: ServiceRun, stop: threading.Event) -> None:
    """Run one life after another (rule L5) until `stop` is set; any error that isn't Retryable ends this."""
    backoff_s = BACKOFF_S_MIN
    health = charge.world.health
    while not stop.is_set():
        try:
            _serve_generation(charge, stop)
        except (Retryable, Fenced) as error:
            if isinstance(error, Fenced):
                charge = replace(charge, was_fenced=True)
                if not charge.settings.standbys:
                    _await_end(error, health, stop)
                    continue
            backoff_s = BACKOFF_S_MIN if health.is_ready else min(2 * backoff_s, BACKOFF_S_MAX)
            health.is_ready, health.waits_for = False, str(error)
            charge.world.metrics.retries.labels(type(error).__name__).inc()
            _log.warning("starting over", reason=str(error), wait_s=backoff_s)
            stop.wait(backoff_s)
            health.tick()


def _await_end(error: Fenced, health: Health, stop: threading.Event) -> None:
    """Wait for the signal to end after another instance took over, as in an upgrade; without one, end anyway."""
    health.is_ready, health.waits_for = False, str(error)
    _log.warning("another instance has taken over", reason=str(error))
    for _ in range(FENCED_S):
        if stop.wait(1.0):
            return
        health.tick()
    raise error


def _serve_generation(charge: ServiceRun, stop: threading.Event) -> None:  # P12.4
    """Serve the current generation (rule P12), until another one takes its place or this life fails."""
    world, settings = charge.world, charge.settings
    shared = Topics.for_query(charge.query, settings.workers_max, settings.input_topics)
    world.log.create_topics({shared.name(Topic.GENERATIONS): 1}, settings.topic_configs.for_kind(TopicKind.INTERNAL))
    serving = charge.office.serving()
    if serving is None:
        refusal = world.health.refusal
        world.health.is_ready, world.health.waits_for = False, refusal or ANNOUNCER
        world.health.tick()
        stop.wait(GENERATION_MS / 1_000 if refusal else ANNOUNCEMENT_S)
        return
    spec = charge.spec(serving)
    create_topics(world.log, spec.topics, settings.topic_configs, touched(spec.edge))
    if charge.writes_log:
        world.reporter.watch_windows(serving.query)
    world.reporter.begin_generation()
    expect(world.reporter, charge.roles, serving.query, settings, serving.sinks)
    with loaded_objects_spared():
        _live(spec, charge, serving, stop)


def _clean_up(log: Log[bytes], topics: Topics, serving: Serving) -> None:  # P12.6
    """Delete the unused topics of earlier generations; a slow service may create one again."""
    earlier = [replace(topics, generation=number) for number in range(FIRST_GENERATION, serving.generation)]
    log.delete_topics([name for each in earlier for name in each.names_of_generation()])


class GenerationWatch:
    """Decides when a life is over because of another generation.

    A service continues until the takeover. A router whose generation should end needs a new life that ends it. But if
    another router has announced the next generation, as in an upgrade, that router ends it, and this one continues
    until it is fenced.
    """

    def __init__(self, charge: ServiceRun, serving: Serving) -> None:
        self._charge = charge
        self._serving = serving
        self._next_ms = 0.0
        self._closes_ms: float | None = None

    def is_over(self, now_ms: float) -> bool:
        """Whether the life is over; looks for news only at intervals."""
        if now_ms < self._next_ms:
            return False
        office = self._charge.office
        if not goes_on(office, self._serving):
            return True
        self._next_ms = now_ms + (TAKEOVER_MS if office.awaits_takeover else GENERATION_MS)
        if not (self._charge.writes_log and office.awaits_takeover and self._serving.successor is None):
            return False
        self._closes_ms = now_ms + ANNOUNCER_MS if self._closes_ms is None else self._closes_ms
        return now_ms >= self._closes_ms  # P12.7


def _live(spec: LoopSpec, charge: ServiceRun, serving: Serving, stop: threading.Event) -> None:
    loop = Loop(spec, charge.world)
    lookout, next_clean_ms = GenerationWatch(charge, serving), 0.0
    try:
        while not stop.is_set():
            loop.step()
            if (now_ms := charge.world.clock.monotonic_ms()) >= next_clean_ms and charge.writes_log:
                next_clean_ms = now_ms + CLEAN_UP_MS
                _clean_up(charge.world.log, spec.topics, serving)
            if lookout.is_over(now_ms):
                _log.info("this generation is over here", generation=serving.generation)
                return
        _log.info("ending", is_needed=loop.is_needed)
        loop.drain(spec.drain_ms)
        loop.finish()
    finally:
        loop.close()
