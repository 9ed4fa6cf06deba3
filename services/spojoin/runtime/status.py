"""The live table of `spojoin status`: what all services of all queries said in the store within the last seconds."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from rich.table import Table

from spojoin.protocol.topology import Role
from spojoin.runtime.ports import Store
from spojoin.runtime.shared_state import SCHEMA_VERSION

_PREFIX = f"spojoin:v{SCHEMA_VERSION}:"
_ORDER = {role.value: place for place, role in enumerate(Role)}

#: a user and a password in an address, before its host or among its parameters
_CREDENTIALS = re.compile(r"(//)\S*(?=@)|((?:password|username)=)[^\s&,;'\"]*", re.IGNORECASE)


class ServiceStatus(NamedTuple):
    """One service's last word; `age_s` is how long ago. Latencies are NaN but for the sink.

    `cpu_s`, the processor time since the service's start, is NaN and `rss_bytes` 0 where it doesn't tell them.
    """

    query: str
    service: str
    role: str
    state: str
    place: str
    metrics: str
    head_frame: int
    watermark_frame: int
    lag: int
    tuples: int
    matches: int
    dead_letters: int
    retries: int
    latency_ms_p50: float
    latency_ms_p99: float
    uptime_s: float
    age_s: float
    wall_ms: int
    cpu_s: float
    rss_bytes: int


def read_status(store: Store, wall_ms: int) -> list[ServiceStatus]:
    """All services, by query and in the order of the data's way. Raises StoreUnavailable."""
    return status_rows(store.scan(_PREFIX), wall_ms)


def status_rows(entries: Mapping[str, Mapping[str, str]], wall_ms: int) -> list[ServiceStatus]:
    """The services among the store's `entries`, as `read_status` gives them."""
    rows = []
    for name, fields in entries.items():
        query, kind, *service = name.removeprefix(_PREFIX).split(":")
        if kind == "status":
            rows.append(_row(query, ":".join(service), fields, wall_ms))
    return sorted(rows, key=lambda row: (row.query, _ORDER.get(row.role, len(_ORDER)), row.service))


def without_credentials(text: str) -> str:
    """A sentence that may be shown: the user and the password of an address are blanked."""
    return _CREDENTIALS.sub(lambda found: f"{found[1] or found[2]}***", text)


def status_table(store: Store) -> Table:
    """The table as of now, query by query. Raises StoreUnavailable."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("service", no_wrap=True)
    table.add_column("state", min_width=6)
    for title in ("frames", "lag", "tuples", "matches", "dead", "retry", "p50/p99 ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for query, rows in groupby(read_status(store, time.time_ns() // 1_000_000), key=lambda row: row.query):
        table.add_row(query, style="bold")
        for row in rows:
            table.add_row(*_cells(row), style=None if row.state == "ready" else "yellow")
    return table


def _row(query: str, service: str, fields: Mapping[str, str], wall_ms: int) -> ServiceStatus:
    def number(name: str) -> int:
        return int(fields.get(name, "0"))

    host = fields.get("host", "?")
    return ServiceStatus(
        query=query,
        service=service,
        role=fields.get("role", "?"),
        state=without_credentials(fields.get("state", "?")),
        place=f"{host}/{fields.get('pid', '?')}",
        metrics=fields.get("metrics_port", "?"),
        head_frame=number("head_frame"),
        watermark_frame=number("watermark_frame"),
        lag=number("lag"),
        tuples=number("tuples"),
        matches=number("matches"),
        dead_letters=number("dead_letters"),
        retries=number("retries"),
        latency_ms_p50=float(fields.get("latency_ms_p50", "nan")),
        latency_ms_p99=float(fields.get("latency_ms_p99", "nan")),
        uptime_s=(number("wall_ms") - number("started_ms")) / 1000,
        age_s=(wall_ms - number("wall_ms")) / 1000,
        wall_ms=number("wall_ms"),
        cpu_s=float(fields.get("cpu_s", "nan")),
        rss_bytes=number("rss_bytes"),
    )


def _cells(row: ServiceStatus) -> list[str]:
    """Frames are watermark/head: results are out, seen."""
    frames = f"{row.watermark_frame}/{max(row.head_frame, row.watermark_frame)}"
    counts = [f"{count:,}" for count in (row.lag, row.tuples, row.matches, row.dead_letters, row.retries)]
    latency = "" if math.isnan(row.latency_ms_p50) else f"{row.latency_ms_p50:.0f}/{row.latency_ms_p99:.0f}"
    return [f" {row.service}", row.state, frames, *counts, latency]
