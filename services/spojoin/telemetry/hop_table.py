"""Where a frame's time goes, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from spojoin.telemetry.hop_rows import HopRow
from spojoin.telemetry.words import bar, precise_milliseconds

#: characters of a hop that takes all the time
BAR_WIDTH = 20


def hop_table(rows: Sequence[HopRow]) -> Table:
    """Where a frame's time goes, a line a hop; what happens meanwhile is indented and has no share."""
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
