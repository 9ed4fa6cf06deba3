"""The main job from nothing to its report."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from loadgen.demo.backfill import BackfillOutcome, backfilled
from loadgen.demo.jobs import JOBS, Job
from loadgen.demo.page import is_proved, proved, write_page
from loadgen.demo.play import QueryOutcome, play
from loadgen.demo.screen import Screen
from loadgen.demo.stage import Stage, stage
from spojoin.embedded.writers import write_report
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals


def demo(folder: Path, console: Console, only: Sequence[str] = ()) -> int:
    """Run the queries, or those named in `only`, one after the other; write report.json and report.html to `folder`.

    Returns the exit status, 0 only if every result is exactly the oracle's.
    """
    jobs = _chosen(only)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with ending_on_signals(), Screen(console) as screen, stage(screen.note) as world:
        outcomes = _play_all(jobs, world, folder, screen)
        backfills = [_backfilled(job, world, screen) for job in jobs if job.is_backfilled]
    report: dict[str, Any] = {
        "machine": {"cores": _cores(), "system": platform.platform(), "python": platform.python_version()},
        "seconds": round(time.monotonic() - started, 1),
        "queries": [outcome.report() for outcome in outcomes],
        "backfills": [backfill.report() for backfill in backfills],
    }
    write_report(folder / "report.json", report)
    write_page(folder / "report.html", report, outcomes)
    console.print(_summary(report))
    console.print(
        proved(report["queries"]), style="green" if is_proved(report["queries"]) else "bold red", highlight=False
    )
    for backfill in backfills:
        console.print(backfill.sentence(), style="green" if backfill.is_same else "bold red", highlight=False)
    console.print(f"report: {folder / 'report.html'} and {folder / 'report.json'}", highlight=False)
    return 0 if is_proved(report["queries"]) and all(backfill.is_same for backfill in backfills) else 1


def _chosen(only: Sequence[str]) -> list[Job]:
    unknown = [name for name in only if name not in [job.name for job in JOBS]]
    if unknown:
        known = ", ".join(job.name for job in JOBS)
        raise ConfigurationError(f"--only {unknown[0]}: there is no such query; expected one of {known}")
    return [job for job in JOBS if not only or job.name in only]


def _play_all(jobs: Sequence[Job], world: Stage, folder: Path, screen: Screen) -> list[QueryOutcome]:
    from loadgen.load.workloads import flights  # noqa: PLC0415  (the flights are an extra)

    return [play(job, job.tables(flights), world, folder / "logs" / job.name, screen) for job in jobs]


def _backfilled(job: Job, world: Stage, screen: Screen) -> BackfillOutcome:
    from loadgen.load.workloads import flights  # noqa: PLC0415  (the flights are an extra)

    screen.note(f"{job.name} once more, over all rows as a history on Spark")
    return backfilled(job, job.tables(flights), world.spark.result(), world.servers.bootstrap)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_FIGURES = {
    "tuples": "tuples",
    "refused": "rejected",
    "matches": "matches",
    "completeness": "completeness",
    "false positives": "false_positives",
    "duplicates": "duplicates",
    "tuples/s, window full": "tuples_per_second",
    "latency p50 ms": "latency_ms_p50",
    "latency p99 ms": "latency_ms_p99",
}


def _summary(report: dict[str, Any]) -> Table:
    queries = report["queries"]
    table = Table(title=f"every probe checked; {report['seconds']:.0f} s in all", title_justify="left")
    table.add_column("")
    for query in queries:
        table.add_column(query["name"], justify="right", overflow="fold", style=None if query["is_exact"] else "red")
    for title, name in _FIGURES.items():
        table.add_row(title, *(_cell(query[name]) for query in queries))
    table.add_row("equals the oracle's", *("yes" if query["is_exact"] else "no" for query in queries))
    table.caption = "\n".join(f"{q['name']}: {q['first_difference']}" for q in queries if q["first_difference"])
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "-")
