"""`spojoin up` and `spojoin kafka`: servers and services on this machine until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.live import Live

from spojoin.cli.commands.common import say_notes
from spojoin.cli.held import HoldNotice
from spojoin.cli.servers import ServersWatch
from spojoin.cli.up_options import UpOptions
from spojoin.errors import ConfigurationError, Retryable
from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.cluster import Servers
from spojoin.local.net import LOOPBACK
from spojoin.local.only_one import OnlyOne
from spojoin.local.reachable import check_kafka_takes, check_redis
from spojoin.local.redis import LocalRedis
from spojoin.local.serve import WORKERS, ServedQuery, ServePlan
from spojoin.local.serve import serve as serve_here
from spojoin.local.services import WORKERS_INSIDE
from spojoin.local.supervise import STOP_LOST_S, STOP_TIMEOUT_S, Notice, Supervisor, ending_on_signals
from spojoin.model import Query
from spojoin.ports.kafka import KafkaConfig
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.packing import parse_packing
from spojoin.protocol.topic_config import TopicKind
from spojoin.protocol.topology import Role
from spojoin.query.load import load_served_query
from spojoin.runtime.registry import check_single_rows
from spojoin.runtime.settings import ResultsFormat, Settings, load_settings
from spojoin.suggest import listed
from spojoin.telemetry.status_table import status_table

TEND_S = 1.0
#: A service that ends by itself this often won't recover.
RESTARTS_MAX = 5
#: What services can write: see their settings.
RESULT_FORMS = get_args(ResultsFormat)


def serve(options: UpOptions, console: Console) -> None:
    """Serve a query until Ctrl-C or SIGTERM; restart services that end by themselves."""
    query = load_served_query(options.query)
    say_notes(query)
    if options.results not in RESULT_FORMS:
        raise ConfigurationError(f"--results {options.results}: expected {listed(RESULT_FORMS)}")
    is_inside = parse_packing(options.packing).is_shared(Role.POJOIN)
    workers = options.workers or query.layout.workers or (WORKERS_INSIDE if is_inside else WORKERS)
    settings = load_settings(
        query_file=options.query, workers=workers, packing=options.packing, **_forms(options)
    )  # raises what services would refuse
    _check_named(options, settings)
    with _until_interrupted(console), ExitStack() as stack:
        servers, broker = _servers(stack, options, console)
        config = KafkaConfig(servers.bootstrap, settings.kafka_properties())
        stack.enter_context(OnlyOne(config, query.name, settings.topic_configs.of(TopicKind.INTERNAL)))
        notice = _quiet if console.is_terminal else _printer(console)
        try:
            with console.status("starting services"):
                served = stack.enter_context(serve_here(_plan(query, workers, options, settings), servers, notice))
        except Retryable as error:
            raise ConfigurationError(f"{error}; start it, or leave out --bootstrap to have one started") from error
        say = partial(console.print, highlight=False, soft_wrap=True)  # commands and paths are copied from it
        say(_directions(served))
        say(f"  the page is at http://{LOOPBACK}:{served.services['page'].port}/")
        say(f"  {ending(options)}")
        hold = HoldNotice(options.query, servers.bootstrap, say)
        seen = ServersWatch(servers.bootstrap, servers.redis_url, say, broker, settings.kafka_properties())
        _watch(served.supervisor, servers.redis_url, console, (hold, seen))


def _check_named(options: UpOptions, settings: Settings) -> None:
    """ConfigurationError where a server that is named doesn't answer."""
    if options.bootstrap is not None:
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
    if options.redis is not None:
        check_redis(options.redis)


def _servers(stack: ExitStack, options: UpOptions, console: Console) -> tuple[Servers, LocalBroker | None]:
    """Kafka and Redis: those that are named, else new ones; and the Kafka that was started."""
    children = stack.enter_context(Children())
    redis = options.redis or stack.enter_context(LocalRedis(children)).url
    if options.bootstrap is not None:
        return Servers(children, options.bootstrap, redis), None
    broker = stack.enter_context(_broker(children, options.port, None, console))
    return Servers(children, broker.bootstrap, redis), broker


def _plan(query: Query, workers: int, options: UpOptions, settings: Settings) -> ServePlan:
    check_single_rows(query, options.results)
    return ServePlan(
        query,
        options.query,
        workers,
        options.joiners,
        options.packing,
        options.standbys,
        {
            **_forms(options),
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


def _forms(options: UpOptions) -> dict[str, Any]:
    """Settings of what messages look like; a registry that isn't named here may be in the environment."""
    named = {} if options.registry is None else {"registry_url": options.registry}
    return {"results_format": options.results, **named}


def run_cluster(port: int | None, redis_port: int | None, folder: Path | None, console: Console) -> None:
    """Run Kafka and Redis until Ctrl-C or SIGTERM."""
    with (
        _until_interrupted(console),
        Children() as children,
        LocalRedis(children, redis_port) as redis,
        _broker(children, port, folder, console) as broker,
    ):
        console.print(f"Kafka: {broker.bootstrap}\nRedis: {redis.url}\nCtrl-C ends both", highlight=False)
        while True:
            time.sleep(TEND_S)


@contextmanager
def _until_interrupted(console: Console) -> Iterator[None]:
    """Ctrl-C is the usual way to end this."""
    try:
        with ending_on_signals():
            yield
    except KeyboardInterrupt:
        console.print("ended")


def _broker(children: Children, port: int | None, folder: Path | None, console: Console) -> LocalBroker:
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
    """What Ctrl-C does to the data."""
    if options.bootstrap is None:
        return "Ctrl-C ends all and discards this Kafka's rows and results; to keep them give --bootstrap of your own"
    return f"Ctrl-C ends the services; rows and results stay in the Kafka at {options.bootstrap}"


def _watch(supervisor: Supervisor, redis: str, console: Console, watches: tuple[HoldNotice, ServersWatch]) -> None:
    """Tend the services, show their table, and say what rows and services wait for, until interrupted."""
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
    """The table shows it."""


def _printer(console: Console) -> Notice:
    def notice(name: str, change: str) -> None:
        console.print(f"{name}: {change}", highlight=False)

    return notice
