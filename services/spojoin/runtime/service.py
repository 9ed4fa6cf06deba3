"""A service from its settings to its end: wiring, signals, supervision, exit status."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

import structlog

from spojoin.errors import BadData, ConfigurationError, Fenced, Retryable, Stop
from spojoin.keep_out import keep_out
from spojoin.model import Query
from spojoin.ports.clock import SystemClock
from spojoin.ports.interfaces import Log
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.access import TRANSACTIONAL, transactional_id
from spojoin.protocol.packing import group_name, parse_group, parse_packing, touched, with_standbys
from spojoin.protocol.services import without_workers
from spojoin.protocol.topic_config import TopicConfigs, TopicKind
from spojoin.protocol.topology import FIRST_GENERATION, Role, Topic, presence_partition
from spojoin.query.meaning import fingerprint
from spojoin.runtime.generations import Announcing, Office, Serving, goes_on
from spojoin.runtime.given import given
from spojoin.runtime.loop import Loop, LoopSpec, Surroundings
from spojoin.runtime.memory import limit_arenas, loaded_objects_spared
from spojoin.runtime.packed import alone, awaited_topics, edge_with, instance_of, packed, takes_over
from spojoin.runtime.rotation import end_when_changed
from spojoin.runtime.settings import ENV_PREFIX, Settings, load_settings
from spojoin.runtime.topics import Topics, create_kept
from spojoin.runtime.wiring import Wire, Wiring
from spojoin.telemetry import log_lines
from spojoin.telemetry.health import Health, HealthServer
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Identity, Reporter

if TYPE_CHECKING:
    from spojoin.ports.redis_store import RedisStore

EXIT_DONE, EXIT_CONFIGURATION, EXIT_STOPPED, EXIT_FENCED = 0, 2, 3, 4

#: between lives of a machine; doubled from the first to the last while nothing gets better
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.1, 5.0

#: how long one that was fenced waits to be asked to end: until then nobody starts it again, to fence the other
FENCED_S = 20

#: how often services look for another generation, and for the takeover by one that was announced
GENERATION_MS, TAKEOVER_MS = 500.0, 50.0
#: how often they ask for the first announcement
ANNOUNCEMENT_S = 0.1
#: how long a router goes on when another one has announced a generation, which then ends the one before it
ANNOUNCER_MS = 20_000.0
#: what services wait for until then
ANNOUNCER = "the router, which announces the query to serve"
#: how often a router looks for topics of generations that are over
CLEAN_UP_MS = 60_000.0

#: how often the store is asked for the result position: a router paces its frames by it, others forget behind it
RESULT_POSITION_MS, ROUTER_RESULT_POSITION_MS = 250.0, 15.0

_log = structlog.get_logger(__name__)


def main(name: str) -> int:
    """Run a process with the environment's settings; `name` is its role, `together`, or roles such as router+sink."""
    keep_out("pandas")  # as in the command
    log_lines.begin_process(name)
    try:
        return run(parse_group(name), load_settings())
    except ConfigurationError as error:
        return _refused(error)


def leave(status: int) -> NoReturn:
    """End the process at once: everything is closed, and unloading modules costs half a second of processor time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(roles: Sequence[Role], settings: Settings) -> int:
    """Run roles in one process until SIGTERM or SIGINT; its exit status.

    0: ended as asked; 2: settings or query are wrong; 3: a record or the log is unusable; 4: another instance of the
    role has taken over. The reason is the last line on stderr.
    """
    log_lines.begin_process(group_name(roles))
    if roles[0] in (Role.PREDICTOR, Role.CONTROLLER):
        return int(_room(roles[0]).serve(settings))
    if len(roles) > 1 and tuple(roles) not in parse_packing(settings.packing).groups:
        raise ConfigurationError(
            f"this process is {group_name(roles)}, and setting packing is {settings.packing}: set "
            f"{ENV_PREFIX}PACKING to the same packing for all services"
        )
    wires = {role: cast("Wire", _room(role).wire) for role in roles}

    def wire(serving: Serving) -> Wiring:
        return (packed if len(roles) > 1 else alone)(wires, serving, settings)

    return exit_status(lambda: _serve(tuple(roles), settings, wire))


def _room(role: Role) -> ModuleType:
    return importlib.import_module(f"spojoin.roles.{role.value.replace('-', '_')}.__main__")


def exit_status(serve: Callable[[], None]) -> int:
    """Serve to the end; the exit status, as `run` documents it."""
    try:
        serve()
    except ConfigurationError as error:
        return _refused(error)
    except Fenced as error:
        _log.error("fenced", reason=str(error))
        return EXIT_FENCED
    except (BadData, Stop) as error:
        _log.error("stopped", reason=str(error))
        return EXIT_STOPPED
    _log.info("ended")
    return EXIT_DONE


def _refused(error: ConfigurationError) -> int:
    _log.error("refused", reason=str(error))
    return EXIT_CONFIGURATION


def _serve(roles: tuple[Role, ...], settings: Settings, wire: Callable[[Serving], Wiring]) -> None:
    limit_arenas()
    found = given(settings, lambda query: wire(Serving(query)))  # a mistake ends the start before anything is opened
    query, wiring = found.query, wire(Serving(found.query))
    service = wiring.service
    log_lines.configure(settings.log_level, settings.named(service), query.name)
    with ExitStack() as stack, stop_on_signals() as stop:
        world = open_world(roles, settings.named(service), query.name, settings, stack)

        def prepare(topics: Topics) -> None:
            create_topics(world.log, topics, settings.topic_configs, awaited_topics(settings))

        office = Office(
            world.log,
            query,
            settings,
            announcing=None if wiring.parse is None else Announcing(wiring.parse, prepare),
            pulse=world.health.tick,
            judged=found.judging(world.reporter.judged),
        )
        try:
            _supervise(Charge(roles, query, settings, wire, world, office), stop)
        except Fenced:
            world.metrics.fenced.inc()
            raise


@dataclass(frozen=True, slots=True)
class Charge:
    """What a service does: roles of a query, with its settings, over its ports.

    was_fenced: whether another instance has taken the place of this process before
    """

    roles: tuple[Role, ...]
    query: Query
    settings: Settings
    wire: Callable[[Serving], Wiring]
    world: Surroundings
    office: Office
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
            topics=serving.topics(settings),
            machine_factory=(
                instance_of(wiring, settings, is_heir=not self.was_fenced) if waits else wiring.machine_factory
            ),
            takes_over=waits,
            transactional_ids=self._transactional_ids(),
            is_json=Role.SINK in self.roles and settings.results_format == "json",
            row_form=wiring.row_form,
            result_key=serving.query.result_key,
            tick_ms=wiring.tick_ms,
            result_position_ms=self._result_position_ms,
            credits_frames=settings.credits_frames if self.writes_log else 0,
            drain_ms=settings.drain_ms if Role.POJOIN in self.roles else 0,
            parse=wiring.parse,
            table=wiring.table,
            fingerprint=fingerprint(serving.query),
        )

    @property
    def writes_log(self) -> bool:
        """Whether the router is here."""
        return Role.ROUTER in self.roles

    @property
    def _result_position_ms(self) -> float:
        """A router is in a hurry for it, unless its own process moves it."""
        is_elsewhere = Role.SINK not in self.roles
        return ROUTER_RESULT_POSITION_MS if self.writes_log and is_elsewhere else RESULT_POSITION_MS

    def _transactional_ids(self) -> dict[Topic, str]:
        settings = self.settings
        return {
            topic: transactional_id(self.query.name, role.value)
            for role, topic in TRANSACTIONAL.items()
            if role in self.roles and settings.transactions and (role is Role.SINK or settings.router_transactions)
        }


def _store(url: str) -> RedisStore:
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415  (commands that read topics need no Redis)

    return RedisStore(url)


def open_world(roles: tuple[Role, ...], service: str, query: str, settings: Settings, stack: ExitStack) -> Surroundings:
    """The ports that a service runs over and what observes it, open until `stack` closes."""
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
        )
    )
    stack.callback(log.close)
    shared = SharedState(store, query, clock, metrics.store_failures)
    reporter = Reporter(Identity(roles, service, query, server.port), shared, clock, metrics, health)
    _log.info("started", metrics=f"http://{settings.metrics_host}:{server.port}/metrics", query=query)
    return Surroundings(log, shared, clock, metrics, health, reporter)


def expect(reporter: Reporter, roles: tuple[Role, ...], query: Query, settings: Settings) -> None:
    """Report which services should run; joiners know how many they are, and the router how many workers it begins with.

    What others say of these numbers isn't believed.
    """
    joiners = settings.joiners if roles == (Role.MUTABLE,) else 1
    workers = settings.workers if Role.ROUTER in roles else 1
    needs = without_workers(query, joiners, settings.packing)
    reporter.expect(needs, workers, settings.workers_packed(), 1 + settings.standbys)


def create_topics(
    log: Log[bytes], topics: Topics, configs: TopicConfigs | None = None, among: Collection[Topic] = tuple(Topic)
) -> None:
    """Make sure that a query's own topics exist, all or some of them; inputs belong to the users."""
    configs = configs or TopicConfigs()
    log.create_topics(topics.trimmed(among), configs.of(TopicKind.INTERNAL))
    create_kept(log, topics, configs, among)


def _supervise(charge: Charge, stop: threading.Event) -> None:
    """One life after another (rule L5) until asked to stop; whatever isn't Retryable ends it."""
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
    """Another instance has taken over: in an upgrade, by whoever then asks this one to end. Else it ends by itself."""
    health.is_ready, health.waits_for = False, str(error)
    _log.warning("another instance has taken over", reason=str(error))
    for _ in range(FENCED_S):
        if stop.wait(1.0):
            return
        health.tick()
    raise error


def _serve_generation(charge: Charge, stop: threading.Event) -> None:
    """Serve the current generation (rule P12), until another one takes its place or this life fails."""
    world, settings = charge.world, charge.settings
    shared = Topics.of(charge.query, settings.workers_max, settings.input_topics)
    world.log.create_topics({shared.name(Topic.GENERATIONS): 1}, settings.topic_configs.of(TopicKind.INTERNAL))
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
    expect(world.reporter, charge.roles, serving.query, settings)
    with loaded_objects_spared():
        _live(spec, charge, serving, stop)


def _clean_up(log: Log[bytes], topics: Topics, serving: Serving) -> None:
    """Delete the topics of earlier generations, which nobody reads; a slow service may make one once more."""
    earlier = [replace(topics, generation=number) for number in range(FIRST_GENERATION, serving.generation)]
    log.delete_topics([name for each in earlier for name in each.own()])


class Lookout:
    """Says when a life is over because of another generation.

    A service goes on until the takeover. A router whose generation is to end needs a life that ends it; where another
    one has announced the next, in an upgrade, that one does it, and this one goes on until it is fenced.
    """

    def __init__(self, charge: Charge, serving: Serving) -> None:
        self._charge = charge
        self._serving = serving
        self._next_ms = 0.0
        self._closes_ms: float | None = None

    def is_over(self, now_ms: float) -> bool:
        """Look, if it is time to."""
        if now_ms < self._next_ms:
            return False
        office = self._charge.office
        if not goes_on(office, self._serving):
            return True
        self._next_ms = now_ms + (TAKEOVER_MS if office.awaits_takeover else GENERATION_MS)
        if not (self._charge.writes_log and office.awaits_takeover and self._serving.successor is None):
            return False
        self._closes_ms = now_ms + ANNOUNCER_MS if self._closes_ms is None else self._closes_ms
        return now_ms >= self._closes_ms


def _live(spec: LoopSpec, charge: Charge, serving: Serving, stop: threading.Event) -> None:
    loop = Loop(spec, charge.world)
    lookout, next_clean_ms = Lookout(charge, serving), 0.0
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


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """SIGTERM and SIGINT stop the service after the current record; a second signal ends it at once."""
    stop = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
