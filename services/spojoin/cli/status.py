"""`spojoin status`: shows services and queries at the terminal, and whether a query is well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from spojoin.errors import ConfigurationError, Retryable
from spojoin.ports.interfaces import Store
from spojoin.ports.redis_store import RedisStore
from spojoin.query.load import load_query
from spojoin.runtime.settings import load_settings
from spojoin.telemetry.expected_services import NOBODY
from spojoin.telemetry.status import QueryStatus, read_status
from spojoin.telemetry.status_table import is_silent, status_table
from spojoin.telemetry.wellness import Wellness, wellness_of

REFRESH_S = 1.0
#: How long to wait for rates: they need two reports of a service, which come every second.
RATES_S = 2.5

View = Callable[[], RenderableType]

POLL_S = 0.5


def show_status(url: str, console: Console, *, is_once: bool) -> None:
    """Print the table of all services, once or every second until Ctrl-C.

    Raises StoreUnavailable if there is no store at the start; later it waits for an absent store.
    """
    from spojoin.local.reachable import check_redis  # noqa: PLC0415

    store = RedisStore(url)
    try:
        _show(lambda: status_table(store), console, is_once=is_once)
    except Retryable:
        check_redis(url)  # has plainer errors
        raise
    finally:
        store.close()


def show_query(query: Path, redis: str, bootstrap: str, console: Console, *, is_once: bool) -> None:
    """Print what the page shows about one query, once or every second until Ctrl-C. Raises ConfigurationError.

    If printed once, the query must be served.
    """
    with _query_view(query, redis, bootstrap, is_once=is_once) as view:
        _show(view, console, is_once=is_once)


def _show(view: View, console: Console, *, is_once: bool) -> None:
    if is_once:
        console.print(view())
        return
    shown = view()
    if not console.is_terminal:  # a file can't be overwritten, so the views follow each other
        while True:
            console.print(shown)
            time.sleep(REFRESH_S)
            shown = _next_view(view, shown)
    with Live(shown, console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(REFRESH_S)
            live.update(_next_view(view, shown), refresh=True)


def _check_served(name: str, url: str, file: Path) -> None:
    """Raise ConfigurationError if no service of the query reports, or StoreUnavailable."""
    store = RedisStore(url)
    try:
        served = [each.query for each in read_status(store, time.time_ns() // 1_000_000)]
    finally:
        store.close()
    if name not in served:
        others = f", only of {' and '.join(served)}" if served else ""
        raise ConfigurationError(
            f"no service of {name} reports to this Redis{others}: start it with `spojoin up {file}`, or name another "
            "Redis by --redis"
        )


def _next_view(view: View, before: RenderableType) -> RenderableType:
    """The current view; a store that is away for a moment doesn't end the watch."""
    try:
        return view()
    except Retryable as error:
        return Group(before, Text(f"{error}; trying again", style="bold red"))


@contextmanager
def _query_view(query: Path, redis: str, bootstrap: str, *, is_once: bool) -> Iterator[View]:
    from spojoin.local.reachable import check_kafka_takes, check_redis  # noqa: PLC0415
    from spojoin.page.service import censor_of, open_watches  # noqa: PLC0415  (these load pyarrow)
    from spojoin.page.settings import load_page_settings, secrets_of  # noqa: PLC0415
    from spojoin.page.state import state_of  # noqa: PLC0415
    from spojoin.page.subject import Subject  # noqa: PLC0415
    from spojoin.page.terminal import screen  # noqa: PLC0415
    from spojoin.query.load import load_query  # noqa: PLC0415

    settings = load_page_settings(query_file=query, redis_url=redis, bootstrap_servers=bootstrap).service
    subject = Subject.served(load_query(query), settings)
    check_redis(redis)
    check_kafka_takes(bootstrap, settings.kafka_properties())
    if is_once:
        _check_served(subject.query.name, settings.store_url() or redis, query)
    censor = censor_of(secrets_of(settings))
    with open_watches(subject, settings) as watches:
        watches.wait_ready()
        time.sleep(RATES_S)
        yield lambda: screen(state_of(watches.known(), censor))


def is_well(file: Path, redis: str, wait_s: float) -> bool:
    """Whether the query becomes well in time, according to its services' reports; prints the reason.

    Raises ConfigurationError; StoreUnavailable if Redis doesn't answer in time.
    """
    query, settings = load_query(file), load_settings(query_file=file, redis_url=redis)
    store = RedisStore(settings.store_url() or redis)
    deadline = time.monotonic() + wait_s
    try:
        while not (found := _wellness(store, query.name, deadline)).is_well and time.monotonic() < deadline:
            time.sleep(POLL_S)
    finally:
        store.close()
    print(f"{query.name}: {found.sentence}")
    return found.is_well


def _wellness(store: Store, name: str, deadline: float) -> Wellness:
    while True:
        try:
            found = read_status(store, time.time_ns() // 1_000_000)
            break
        except Retryable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)
    status = next((each for each in found if each.query == name), QueryStatus(name, [], NOBODY, {}))
    return wellness_of((row for row in status.services if not is_silent(row)), status.expected)
