"""The summary shown when a run over files has ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table


def show_run(report: Mapping[str, object], output: Path) -> None:
    """A small table of a run's report, on stderr."""
    table = Table(title=str(report["query"]), show_header=False, title_justify="left")
    for name in ("tuples", "matches", "rows_written", "rejected"):
        table.add_row(name.replace("_", " "), f"{report[name]:,}")
    reasons = report["rejected_by_reason"]
    if isinstance(reasons, Mapping):
        for reason, count in reasons.items():
            table.add_row(f"  {reason}", f"{count:,}")
    _add_errors(table, report)
    _add_layout(table, report)
    table.add_row("seconds", f"{report['seconds']:,.2f}")
    table.add_row("tuples/s", _figure(report["tuples_per_second"]))
    table.add_row("tuples/s, window full", _figure(report["tuples_per_second_window_full"]))
    table.add_row("peak memory", _figure(report["peak_rss_bytes"], 1 / (1 << 20), " MiB"))
    table.add_row("output", str(output))
    Console(stderr=True).print(table)


def _add_errors(table: Table, report: Mapping[str, object]) -> None:
    """For a method that is wrong by design, the number of wrong pairs."""
    search = report["search"]
    for name in ("false_positives", "false_negatives"):
        if isinstance(search, Mapping) and name in search:
            table.add_row(name.replace("_", " "), f"{search[name]:,.0f}", style="red")


def _add_layout(table: Table, report: Mapping[str, object]) -> None:
    """What several workers cost, in brief; the report has the rest."""
    layout, tuples = report["layout"], report["tuples"]
    if not isinstance(layout, Mapping) or not isinstance(tuples, int) or layout["workers"] == 1 or tuples == 0:
        return
    table.add_row("layout", f"{layout['name']}, {layout['workers']} workers")
    table.add_row("  comparisons, most to mean", f"{layout['comparisons_imbalance']:.3f}")
    table.add_row("  messages a tuple", f"{layout['messages'] / tuples:.1f}")
    table.add_row("  workers' memory", _figure(layout["memory_bytes"], 1 / (1 << 10), " KiB"))


def _figure(value: object, factor: float = 1.0, unit: str = "") -> str:
    return f"{value * factor:,.0f}{unit}" if isinstance(value, int | float) else "-"
