"""`spojoin up` and `spojoin kafka`: servers and services on this machine until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from spojoin.errors import ConfigurationError, Retryable
from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.net import LOOPBACK
from spojoin.local.redis import LocalRedis
from spojoin.local.services import Deployment, page_of, services_of
from spojoin.local.supervise import Notice, Supervisor, ending_on_signals
from spojoin.model import Query
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.topology import Topic
from spojoin.query.load import load_served_query
from spojoin.runtime.generations import check_generation
from spojoin.runtime.settings import load_settings
from spojoin.runtime.topics import Topics
from spojoin.telemetry.status_table import status_table

TEND_S = 1.0
#: A service that ends by itself so often will not get better.
RESTARTS_MAX = 5
WORKERS = 2
RESULT_FORMS = ("frames", "json")


@dataclass(frozen=True, slots=True)
class UpOptions:
    """How to serve. workers: None takes the number of the query's layout, or WORKERS; joiners: None, one a predicate.

    bootstrap, redis: servers that run already; None starts one.
    replace, backfill: whether a changed query takes the place of the one served there, and how its windows are filled.
    """

    workers: int | None = None
    partitions: int = 1
    bootstrap: str | None = None
    redis: str | None = None
    port: int | None = None
    results: str = "frames"
    logs: Path | None = None
    replace: bool = False
    backfill: Backfill = Backfill.WINDOW
    joiners: int | None = None


def serve(query_file: Path, options: UpOptions, console: Console) -> None:
    """Serve a query until Ctrl-C or SIGTERM; what ends by itself is started anew."""
    query = load_served_query(query_file)
    if options.results not in RESULT_FORMS:
        raise ConfigurationError(f"--results {options.results}: expected one of {', '.join(RESULT_FORMS)}")
    workers = options.workers or query.layout.workers or WORKERS
    load_settings(query_file=query_file, workers=workers)  # what services would refuse ends it before they start
    with _until_interrupted(console), ExitStack() as stack:
        children = stack.enter_context(Children())
        redis = options.redis or stack.enter_context(LocalRedis(children)).url
        bootstrap = options.bootstrap or stack.enter_context(_broker(children, options.port, None, console)).bootstrap
        topics = _make_topics(query, bootstrap, workers, options)
        logs = options.logs or children.scratch_folder("logs")
        notice = _quiet if console.is_terminal else _teller(console)
        supervisor = stack.enter_context(Supervisor(children, logs, RESTARTS_MAX, notice))
        extra = {
            "results_format": options.results,
            "replace": str(options.replace),
            "backfill": options.backfill.value,
        }
        deployment = Deployment(query, query_file, bootstrap, redis, workers, extra, options.joiners)
        page = page_of(deployment)
        supervisor.start([*services_of(deployment), page])
        with console.status("starting services"):
            supervisor.wait_ready()
        console.print(_directions(query_file, bootstrap, redis, topics, logs), highlight=False)
        console.print(f"  the page is at http://{LOOPBACK}:{page.port}/\n  {ending(options)}", highlight=False)
        _watch(supervisor, redis, console)


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
    """Ctrl-C is how this is meant to end."""
    try:
        with ending_on_signals():
            yield
    except KeyboardInterrupt:
        console.print("ended")


def _broker(children: Children, port: int | None, folder: Path | None, console: Console) -> LocalBroker:
    return LocalBroker(children, folder, port, progress=console.print)


def _make_topics(query: Query, bootstrap: str, workers: int, options: UpOptions) -> Topics:
    topics = Topics.of(query, workers, {})
    log = KafkaLog(KafkaConfig(bootstrap))
    try:
        log.create_topics({topics.name(Topic.GENERATIONS): 1})
        check_generation(log, query, replace=options.replace)
        # Services make those of the generation that they serve; topics of one that is over would stay for ever.
        log.create_topics(topics.kept() | dict.fromkeys(topics.inputs, options.partitions))
    except Retryable as error:
        raise ConfigurationError(f"{error}; start it, or let it be started by leaving out --bootstrap") from error
    finally:
        log.close()
    return topics


def _directions(query_file: Path, bootstrap: str, redis: str, topics: Topics, logs: Path) -> str:
    return (
        f"[bold]{topics.query} is served.[/] Kafka {bootstrap}, Redis {redis}, logs {logs}\n"
        f"  push rows to {', '.join(topics.inputs)}, from any program or with\n"
        f"    spojoin send {query_file} -i STREAM=FILE --bootstrap {bootstrap}\n"
        f"  read results with\n"
        f"    spojoin results {query_file} --follow --bootstrap {bootstrap}"
    )


def ending(options: UpOptions) -> str:
    """What Ctrl-C does to the data."""
    if options.bootstrap is None:
        return "Ctrl-C ends all and discards this Kafka's rows and results; to keep them give --bootstrap of your own"
    return f"Ctrl-C ends the services; rows and results stay in the Kafka at {options.bootstrap}"


def _watch(supervisor: Supervisor, redis: str, console: Console) -> None:
    """Tend the services and show their table until interrupted."""
    store = RedisStore(redis)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            supervisor.tend()
            if console.is_terminal:
                try:
                    live.update(status_table(store), refresh=True)
                except Retryable as error:
                    live.update(f"no status: {error}", refresh=True)
            time.sleep(TEND_S)


def _quiet(_name: str, _change: str) -> None:
    """The table tells."""


def _teller(console: Console) -> Notice:
    def tell(name: str, change: str) -> None:
        console.print(f"{name}: {change}", highlight=False)

    return tell
