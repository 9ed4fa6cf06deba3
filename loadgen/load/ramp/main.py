"""The ramp from its first rate to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from loadgen.load.load import Load
from loadgen.load.ramp.measure import Bench
from loadgen.load.ramp.page import HEADINGS, as_json, cells, write_page
from loadgen.load.ramp.search import Search, highest_that_holds
from loadgen.load.ramp.step import Step, judge
from loadgen.load.tap import ResultsTap
from loadgen.load.workloads import TUPLES_PER_SECOND
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.protocol.topology import Topic, dead_letter_topic, topic_name


@dataclass(frozen=True, slots=True)
class Ramp:
    """The outcome; `best` is None where no rate that was tried holds."""

    steps: list[Step]
    best: float | None


def fill_windows(bench: Bench, query: Query, rows: int | None, say: Callable[[str], None]) -> None:
    """Send rows until windows are full (or `rows` of each stream), since a join costs by its window.

    Raises ConfigurationError where nothing comes out.
    """
    wanted = rows_of_window(query) if rows is None else rows
    if not wanted:
        return
    say(f"filling the window with {wanted:,} rows of each stream")
    if not bench.fill(wanted):
        raise ConfigurationError(
            f"the services of {query.name} produced no result for {bench.plan.drain_s:.0f} s: see `spojoin status`"
        )


def rows_of_window(query: Query) -> int:
    """How many rows of a stream fill its window; by event time they come at the load's own density."""
    window = query.window
    return window.length * TUPLES_PER_SECOND // 1_000_000 if window.is_time else window.length


def climb(bench: Bench, search: Search, p99_ms_max: float, report: Callable[[Step], None]) -> Ramp:
    """Try rates until the search ends, or the services no longer catch up."""
    steps: list[Step] = []
    while (rate := search.next_rate(steps)) is not None:
        measured = bench.measure(rate)
        steps.append(judge(measured, p99_ms_max))
        report(steps[-1])
        if not measured.is_drained:
            # The next rate would be measured behind the rows left over from this one.
            break
    return Ramp(steps, highest_that_holds(steps))


def tap_at_end(log: Log[bytes], query: Query, load: Load) -> ResultsTap:
    """Reads results and refused rows from now on. Raises ConfigurationError where the services were never there."""
    results = LogPartition(topic_name(query.name, Topic.RESULTS), 0)
    if not log.partitions(results.topic):
        raise ConfigurationError(
            f"Kafka has no topic {results.topic!r}: start the services of {query.name} first, or use --local"
        )
    letters = [LogPartition(dead_letter_topic(load.topic_of(stream.name)), 0) for stream in load.workload.streams]
    there = [(each, log.bounds(each).end) for each in letters if log.partitions(each.topic)]
    return ResultsTap(log.reader(), results, log.bounds(results).end, there)


def table(ramp: Ramp, title: str) -> Table:
    """All steps for a terminal."""
    best = "no rate that was tried holds" if ramp.best is None else f"the highest that holds: {ramp.best:,.0f} rows/s"
    shown = Table(title=f"{title}: {best}", title_justify="left")
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading == "" else "right", overflow="fold")
    for step in sorted(ramp.steps, key=lambda step: step.rate):
        shown.add_row(*cells(step), style=None if step.holds else "red")
    return shown


def write(ramp: Ramp, folder: Path, about: Mapping[str, object], p99_ms_max: float) -> None:
    """Write ramp.json and ramp.html."""
    folder.mkdir(parents=True, exist_ok=True)
    content = orjson.dumps(
        as_json(about, ramp.steps, ramp.best), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    (folder / "ramp.json").write_bytes(content)
    best = "none" if ramp.best is None else f"{ramp.best:,.0f} rows/s"
    machine = f"{about['cpu']}, {about['cores']} cores, load {about['load_average_1min']} at the start"
    text = f"Highest rate that holds with p99 of at most {p99_ms_max:,.0f} ms: {best}. Load generator on {machine}."
    write_page(folder / "ramp.html", f"{about['workload']}: latency by throughput", text, ramp.steps, p99_ms_max)


def step_teller(console: Console) -> Callable[[Step], None]:
    """A line a step."""

    def report(step: Step) -> None:
        p99 = "-" if step.latency_ms_p99 is None else f"{step.latency_ms_p99:,.0f} ms"
        verdict = "holds" if step.holds else f"doesn't hold: {step.verdict}"
        console.print(f"{step.rate:>12,.0f} rows/s  p99 {p99:>9}  {verdict}", highlight=False, soft_wrap=True)

    return report
