"""The live tables of `spojoin status`, in 80 columns: all services of all queries, and where frames' time goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spojoin.ports.interfaces import Store
from spojoin.ports.shared_state import STATUS_TTL_S
from spojoin.protocol.grid import Grid
from spojoin.protocol.services import in_order
from spojoin.telemetry.durations import bar, duration, milliseconds, open_text, precise_milliseconds, unanswered_text
from spojoin.telemetry.expected_services import ExpectedServices
from spojoin.telemetry.status import (
    FINE,
    HopRow,
    QueryStatus,
    ServiceStatus,
    holder_of,
    hop_rows,
    open_rows,
    read_status,
    refusal_of,
    unanswered_ms,
)

#: characters of a hop that takes all the time
BAR_WIDTH = 20

#: services report every second; one is silent after this long without a report, and gone once its report has expired
SILENCE_S_MAX = 5.0


def hop_table(rows: Sequence[HopRow]) -> Table:
    """Where a frame's time goes, one line per hop; overlapping hops are indented and have no share."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("  hop", no_wrap=True)
    for title in ("p50", "p99", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("in", overflow="fold")
    for row in rows:
        times = [precise_milliseconds(ms) for ms in (row.took.p50_ms, row.took.p99_ms)]
        slowest = row.service if row.services == 1 else f"{row.service}, the slowest of {row.services}"
        if row.share is None:
            table.add_row(f"    {row.hop}", *times, "", "", slowest, style="dim")
        else:
            table.add_row(f"  {row.hop}", *times, f"{row.share:.0%}", bar(row.share, BAR_WIDTH), slowest)
    return table


def status_table(store: Store) -> RenderableType:
    """All queries as of now, one after the other, in 80 columns. Raises StoreUnavailable."""
    wall_ms = time.time_ns() // 1_000_000
    found = read_status(store, wall_ms)
    if not found:
        return Text("no service reports to this Redis", style="yellow")
    return Group(*(part for each in found for part in _parts(each, wall_ms)))


def _parts(status: QueryStatus, wall_ms: int) -> Iterator[RenderableType]:
    yield Text(status.query, style="bold")
    yield Text(f"  {_totals(status.totals)}")
    yield Text(f"  {_latency(status.services)}")
    if (grid := status.expected.grid) is not None and grid.workers > 1:
        waiting = f", {idle} more without work" if (idle := status.expected.idle) else ""
        yield Text(f"  {_grid_text(grid)}{waiting}")
    if refusal := refusal_of(status.services):
        yield Text(f"  not accepted: {refusal}", style="yellow")
    if (held := holder_of(status.services)) is not None:
        yield Text(f"  {held}", style="yellow")
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("  service", no_wrap=True)
    for title in ("frames", "lag", "retries", "up"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", min_width=8, overflow="fold")
    by_name = {row.service: row for row in status.services}
    for name in in_order([*by_name, *status.expected.seen_ms]):
        if (row := by_name.get(name)) is not None:
            state = _state(row)
            table.add_row(*_cells(row), Text(state), style=None if state in FINE else "yellow")
        else:
            table.add_row(f"  {name}", "-", "-", "-", "-", _gone(status.expected, name, wall_ms), style="bold red")
    yield table
    if rows := hop_rows(status.services):
        yield hop_table(rows)


def _totals(totals: Mapping[str, int]) -> str:
    said = (("rows", "rows in"), ("answered", "answered"), ("matches", "matches"), ("refused", "refused"))
    return ", ".join(f"{totals[name]:,} {text}" if name in totals else f"- {text}" for name, text in said)


def _grid_text(grid: Grid) -> str:
    if grid.columns == 1:
        return f"{grid.workers} workers share the frames"
    if grid.rows == 1:
        return f"{grid.workers} workers share the window"
    return f"{grid.workers} workers: {grid.rows} rows share the frames, {grid.columns} columns the window"


def _latency(services: list[ServiceStatus]) -> str:
    sinks = [row for row in services if not math.isnan(row.latency_ms_p50)]
    p50, p99 = (sinks[0].latency_ms_p50, sinks[0].latency_ms_p99) if sinks else (None, None)
    return (
        f"latency of the last minute p50 {milliseconds(p50)}, p99 {milliseconds(p99)}; "
        f"oldest unanswered row: {unanswered_text(unanswered_ms(services))}"
    ) + "".join(f"; {open_text(*found)}" for found in [open_rows(services)] if found is not None)


def _gone(expected: ExpectedServices, name: str, wall_ms: int) -> str:
    seen_ms = expected.seen_ms[name]
    since = "has never reported" if seen_ms is None else f"gone for {duration(max(0, wall_ms - seen_ms) / 1000)}"
    return f"{since}: results wait for it" if name in expected.needed else since


def _cells(row: ServiceStatus) -> list[str]:
    """A service's cells. Frames are those with results / those seen; the predictor knows no result position."""
    done = row.result_frame
    frames = f"{row.head_frame}" if done is None else f"{done}/{max(row.head_frame, done)}"
    return [f"  {row.service}", frames, f"{row.lag:,}", f"{row.retries:,}", duration(row.uptime_s)]


def is_silent(row: ServiceStatus) -> bool:
    """Whether a service's report is old; a report older than its time to live comes from another clock."""
    return SILENCE_S_MAX < row.age_s <= STATUS_TTL_S


def _state(row: ServiceStatus) -> str:
    return f"silent for {duration(row.age_s)}" if is_silent(row) else row.state
