"""`spojoin up` and `spojoin kafka`: servers and services on this machine until Ctrl-C."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from spojoin.cli.options import UpOptions, say_notes
from spojoin.errors import ConfigurationError, Retryable, Stop
from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.cluster import Servers
from spojoin.local.net import LOOPBACK
from spojoin.local.only_one import OnlyOne
from spojoin.local.reachable import check_kafka, check_kafka_takes, check_redis
from spojoin.local.redis import LocalRedis
from spojoin.local.serve import WORKERS, ServedQuery, ServePlan
from spojoin.local.serve import serve as serve_here
from spojoin.local.services import WORKERS_INSIDE
from spojoin.local.supervise import STOP_LOST_S, STOP_TIMEOUT_S, Notice, Supervisor, ending_on_signals
from spojoin.model import Query
from spojoin.ports.interfaces import Store
from spojoin.ports.kafka import KafkaConfig
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.key_columns import check_key
from spojoin.protocol.packing import parse_packing
from spojoin.protocol.topic_config import TopicKind
from spojoin.query.load import load_served_query
from spojoin.runtime.registry import check_single_rows
from spojoin.runtime.settings import Settings, load_settings
from spojoin.suggest import listed
from spojoin.telemetry.status import holder_of, read_status
from spojoin.telemetry.status_table import status_table
from spojoin.telemetry.waiting_input import HeldBy
from spojoin.wire.result_forms import RESULT_FORMS

#: An input that holds others for less than this time may only be slow.
HELD_MS = 5_000.0

#: With less free disk space, Kafka will soon fail to write.
DISK_BYTES_MIN = 64 << 20

#: What the absence of a server means for the user.
_MEANING = {
    "Kafka": "services wait for it",
    "Redis": "status and page know nothing until it does; results go on",
}

#: A server that doesn't answer this many times in a row, for a second each, counts as away and not just busy.
QUESTIONS = 3
TEND_S = 1.0

#: The settings that divide the work among services, also those from the environment: they decide what is started.
_DIVIDING = ("intakes", "columns", "columns_by", "logical_ands", "sinks")

#: A service that ends by itself this often won't recover.
RESTARTS_MAX = 5


def serve(options: UpOptions, console: Console) -> None:
    """Serve a query until Ctrl-C or SIGTERM; restart services that end by themselves."""
    query = load_served_query(options.query)
    say_notes(query)
    if options.results not in RESULT_FORMS:
        raise ConfigurationError(f"--results {options.results}: expected {listed(RESULT_FORMS)}")
    is_inside = parse_packing(options.packing).has_workers_inside
    workers = options.workers or query.layout.workers or (WORKERS_INSIDE if is_inside else WORKERS)
    settings = load_settings(
        query_file=options.query, workers=workers, packing=options.packing, **_optional_settings(options)
    )  # raises what services would refuse
    check_key(query, settings.columns_by)
    _check_named_servers(options, settings)
    with _until_interrupted(console), ExitStack() as stack:
        servers, broker = _servers(stack, options, console)
        config = KafkaConfig(servers.bootstrap, settings.kafka_properties())
        stack.enter_context(OnlyOne(config, query.name, settings.topic_configs.for_kind(TopicKind.INTERNAL)))
        notice = _quiet if console.is_terminal else _printer(console)
        try:
            with console.status("starting services"):
                served = stack.enter_context(
                    serve_here(_serve_plan(query, workers, options, settings), servers, notice)
                )
        except Retryable as error:
            raise ConfigurationError(f"{error}; start it, or leave out --bootstrap to have one started") from error
        say = partial(console.print, highlight=False, soft_wrap=True)  # commands and paths are copied from it
        say(_directions(served))
        say(f"  the page is at http://{LOOPBACK}:{served.services['page'].port}/")
        say(f"  {ending(options)}")
        hold = HoldNotice(options.query, servers.bootstrap, say)
        seen = ServersWatch(servers.bootstrap, servers.redis_url, say, broker, settings.kafka_properties())
        _watch(served.supervisor, servers.redis_url, console, (hold, seen))


def _check_named_servers(options: UpOptions, settings: Settings) -> None:
    """Raise ConfigurationError if a server that the user named doesn't answer."""
    if options.bootstrap is not None:
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
    if options.redis is not None:
        check_redis(options.redis)


def _servers(stack: ExitStack, options: UpOptions, console: Console) -> tuple[Servers, LocalBroker | None]:
    """The named Kafka and Redis, or newly started ones; and the Kafka if it was started here."""
    children = stack.enter_context(Children())
    redis = options.redis or stack.enter_context(LocalRedis(children)).url
    if options.bootstrap is not None:
        return Servers(children, options.bootstrap, redis), None
    broker = stack.enter_context(_local_broker(children, options.port, None, console))
    return Servers(children, broker.bootstrap, redis), broker


def _serve_plan(query: Query, workers: int, options: UpOptions, settings: Settings) -> ServePlan:
    check_single_rows(query, options.results)
    return ServePlan(
        query,
        options.query,
        workers,
        options.joiners,
        options.packing,
        options.standbys,
        {
            **_optional_settings(options),
            **{name: str(getattr(settings, name)) for name in _DIVIDING},
            "replace": str(options.replace),
            "adopt": options.adopt,
            "backfill": options.backfill.value,
        },
        partitions=options.partitions,
        logs=options.logs,
        restarts_max=RESTARTS_MAX,
        has_page=True,
        topic_configs=settings.topic_configs,
    )


def _optional_settings(options: UpOptions) -> dict[str, Any]:
    """The settings of messages and of the grid; all but the form of results may also be in the environment."""
    optional = {"registry_url": options.registry, **{name: getattr(options, name) for name in _DIVIDING}}
    return {"results_format": options.results} | {name: value for name, value in optional.items() if value is not None}


def run_cluster(port: int | None, redis_port: int | None, folder: Path | None, console: Console) -> None:
    """Run Kafka and Redis until Ctrl-C or SIGTERM."""
    with (
        _until_interrupted(console),
        Children() as children,
        LocalRedis(children, redis_port) as redis,
        _local_broker(children, port, folder, console) as broker,
    ):
        console.print(f"Kafka: {broker.bootstrap}\nRedis: {redis.url}\nCtrl-C ends both", highlight=False)
        while True:
            time.sleep(TEND_S)


@contextmanager
def _until_interrupted(console: Console) -> Iterator[None]:
    """End the block by Ctrl-C without an error, since that is the usual way."""
    try:
        with ending_on_signals():
            yield
    except KeyboardInterrupt:
        console.print("ended")


def _local_broker(children: Children, port: int | None, folder: Path | None, console: Console) -> LocalBroker:
    return LocalBroker(children, folder, port, progress=console.print)


def _directions(served: ServedQuery) -> str:
    file, servers, topics = served.plan.query_file, served.servers, served.plan.topics
    taken = [topic for topic in topics.inputs if topic not in topics.fed]
    push = (
        f"  push rows to {', '.join(topics.fed)}, from any program or with\n"
        f"    spojoin send {file} -i STREAM=FILE --bootstrap {servers.bootstrap}\n"
    )
    come = f"  rows come from {', '.join(taken)}\n"
    return (
        f"[bold]{served.query.name} is served.[/] Kafka {servers.bootstrap}, Redis {servers.redis_url}, "
        f"logs {served.logs}\n"
        f"{push if topics.fed else ''}"
        f"{come if taken else ''}"
        f"  read results with\n"
        f"    spojoin results {file} --follow --bootstrap {servers.bootstrap}"
    )


def ending(options: UpOptions) -> str:
    """A sentence on what happens to the data after Ctrl-C."""
    if options.bootstrap is None:
        return "Ctrl-C ends all and discards this Kafka's rows and results; to keep them give --bootstrap of your own"
    return f"Ctrl-C ends the services; rows and results stay in the Kafka at {options.bootstrap}"


def _watch(supervisor: Supervisor, redis: str, console: Console, watches: tuple[HoldNotice, ServersWatch]) -> None:
    """Keep the services running, show their table, and report what rows and services wait for, until interrupted."""
    store, (hold, servers) = RedisStore(redis), watches
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                supervisor.tend()
                servers.look()
            finally:
                supervisor.stop_timeout_s = STOP_LOST_S if servers.is_kafka_away else STOP_TIMEOUT_S
            hold.look(store)
            if console.is_terminal:
                try:
                    live.update(status_table(store), refresh=True)
                except Retryable as error:
                    live.update(f"no status: {error}", refresh=True)
            time.sleep(TEND_S)


def _quiet(_name: str, _change: str) -> None:
    """Says nothing, because the table shows the change."""


def _printer(console: Console) -> Notice:
    def notice(name: str, change: str) -> None:
        console.print(f"{name}: {change}", highlight=False)

    return notice


class HoldNotice:
    """Says once for each input that others wait for it. file: the query's file; bootstrap: its Kafka's address."""

    def __init__(self, file: Path, bootstrap: str, say: Callable[[str], None]) -> None:
        self._file = file
        self._bootstrap = bootstrap
        self._say = say
        self._said: tuple[str, str] | None = None

    def look(self, store: Store) -> None:
        """Read what services report; says nothing while the store is away."""
        try:
            found = read_status(store, time.time_ns() // 1_000_000)
        except Retryable:
            return
        held = next((each for each in (holder_of(status.services) for status in found) if each is not None), None)
        if held is None:
            self._said = None
        elif held.ms >= HELD_MS and (held.name, held.reached) != self._said:
            self._said = held.name, held.reached
            self._say(f"{held}; {self._way_out(held)}")

    def _way_out(self, held: HeldBy) -> str:
        if held.is_table:
            return f"write messages with keys to the topic of {held.name}"
        return (
            f"send its rows or a heartbeat, end it with `spojoin send {self._file} --end --bootstrap "
            f"{self._bootstrap}`, or give the query an idle_timeout, such as `idle_timeout: 5 s`"
        )


class ServerLost(Stop):
    """A server that `up` started has ended, and its data is gone."""


@dataclass(slots=True)
class ServersWatch:
    """Checks whether both servers answer, and reports each change once.

    broker: the Kafka that was started here, or None if the user named one; properties: those of Kafka's clients
    """

    bootstrap: str
    redis: str
    say: Callable[[str], None]
    broker: LocalBroker | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    _away: set[str] = field(default_factory=set)
    _is_disk_full: bool = False

    @property
    def is_kafka_away(self) -> bool:
        """Whether Kafka didn't answer at the last check."""
        return "Kafka" in self._away

    def look(self) -> None:
        """Check both servers. Raises ServerLost."""
        if self.broker is not None:
            self._check_own_broker(self.broker)
        self._say_changes("Kafka", lambda: check_kafka(self.bootstrap, self.properties, believes=False))
        self._say_changes("Redis", lambda: check_redis(self.redis, believes=False))

    def _check_own_broker(self, broker: LocalBroker) -> None:
        is_full = shutil.disk_usage(broker.folder).free < DISK_BYTES_MIN
        why = broker.lost()
        if why is not None:
            self._away.add("Kafka")
            full = f"the disk is full, {broker.folder}: " if is_full else ""
            way_out = "make room, and start again" if is_full else "start again"
            raise ServerLost(f"{full}{why}; its rows and results are gone: {way_out}")
        if is_full and not self._is_disk_full:
            self.say(f"the disk is full: Kafka needs room in {broker.folder}; rows and results wait for it")
        self._is_disk_full = is_full

    def _say_changes(self, name: str, check: Callable[[], None]) -> None:
        why = self._why_away(check)
        if why is None and name in self._away:
            self.say(f"{name} answers again")
            self._away.remove(name)
        elif why is not None and name not in self._away:
            self.say(f"{why}; {_MEANING[name]}")
            self._away.add(name)

    def _why_away(self, check: Callable[[], None]) -> str | None:
        why = None
        for _ in range(QUESTIONS):
            try:
                check()
            except ConfigurationError as error:
                why = str(error).split(";", maxsplit=1)[0]
            else:
                return None
        return why
