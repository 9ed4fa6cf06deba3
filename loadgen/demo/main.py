"""The main job from its start to its report."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from loadgen.demo.comparisons import BackfillOutcome, PackingsOutcome, compare_backfill, compare_packings
from loadgen.demo.jobs import Job
from loadgen.demo.page import COLUMNS, is_proved, proved, text_of, write_page
from loadgen.demo.play import play
from loadgen.demo.screen import Screen
from loadgen.demo.stage import stage
from spojoin.embedded.writers import write_report
from spojoin.local.supervise import ending_on_signals


def demo(folder: Path, console: Console, jobs: Sequence[Job]) -> int:
    """Play the jobs one after the other; write report.json and report.html to `folder`.

    Returns the exit status, 0 only if every result of every way is exactly the oracle's.
    """
    from loadgen.load.workloads import flights  # noqa: PLC0415  (the flights are an extra)

    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    packings: list[PackingsOutcome] = []
    backfills: list[BackfillOutcome] = []
    with ending_on_signals(), Screen(console) as screen, stage(screen.note) as world:
        outcomes = [play(job, job.tables(flights), world, folder / "logs" / job.name, screen) for job in jobs]
        spark, bootstrap = world.spark.result(), world.servers.bootstrap
        for file in dict.fromkeys(job.file for job in jobs):
            plays = [job for job in jobs if job.file == file]
            if len(plays) > 1:
                screen.note(f"comparing the results of {' and '.join(job.name for job in plays)}")
                packings.append(compare_packings(plays, bootstrap))
        for job in jobs:
            if job.is_backfilled:
                screen.note(f"{job.name} once more, over all rows as a history on Spark")
                backfills.append(compare_backfill(job, job.tables(flights), spark, bootstrap))
    report: dict[str, Any] = {
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "seconds": round(time.monotonic() - started, 1),
        "queries": [outcome.report() for outcome in outcomes],
        "packings": [each.report() for each in packings],
        "backfills": [each.report() for each in backfills],
    }
    write_report(folder / "report.json", report)
    said = [(proved(report["queries"]), is_proved(report["queries"]))]
    said += [(each.sentence(), each.is_same) for each in packings]
    said += [(each.sentence(), each.is_same) for each in backfills]
    write_page(folder / "report.html", report, said, outcomes)
    console.print(_summary(report))
    for sentence, is_right in said:
        console.print(sentence, style="green" if is_right else "bold red", highlight=False)
    console.print(f"report: {folder / 'report.html'} and {folder / 'report.json'}", highlight=False)
    return 0 if all(is_right for _, is_right in said) else 1


def _summary(report: dict[str, Any]) -> Table:
    queries = report["queries"]
    table = Table(title=f"every probe checked; {report['seconds']:.0f} s in all", title_justify="left")
    table.add_column("")
    for query in queries:
        table.add_column(query["name"], justify="right", overflow="fold", style=None if query["is_exact"] else "red")
    for name, title in COLUMNS.items():
        table.add_row(title, *(text_of(query[name]) for query in queries))
    table.add_row("equals the oracle's", *("yes" if query["is_exact"] else "no" for query in queries))
    table.caption = "\n".join(f"{q['name']}: {q['first_difference']}" for q in queries if q["first_difference"])
    return table
