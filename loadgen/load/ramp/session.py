"""The ramp from its first rate to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from loadgen import machine
from loadgen.load import produce as producing
from loadgen.load.connection import Connection
from loadgen.load.files import ending
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import Load
from loadgen.load.load_file import RampFile
from loadgen.load.progress import log_console, stepping
from loadgen.load.ramp.measure import Bench, StepTimes
from loadgen.load.ramp.page import HEADINGS, as_json, cells, write_page
from loadgen.load.ramp.step import Search, Step, highest_that_holds, judge
from loadgen.load.tap import ResultsTap
from loadgen.load.workloads import TUPLES_PER_SECOND
from spojoin.errors import ConfigurationError
from spojoin.local.serve import serve
from spojoin.local.supervise import ending_on_signals
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.protocol.topology import Topic, dead_letter_topic, topic_name


@dataclass(frozen=True, slots=True)
class Ramp:
    """The outcome; `best` is None if no tried rate holds."""

    steps: list[Step]
    best: float | None


def fill_windows(bench: Bench, query: Query, rows: int | None, say: Callable[[str], None]) -> None:
    """Send rows until windows are full (or `rows` of each stream), since the cost of a join depends on its window.

    Raises ConfigurationError if no results come.
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
    """The number of a stream's rows that fill its window; in event time it depends on the load's density."""
    window = query.window
    return window.rows or window.length * TUPLES_PER_SECOND // 1_000_000


def climb(bench: Bench, search: Search, p99_ms_max: float, report: Callable[[Step], None]) -> Ramp:
    """Try rates until the search ends, or the services no longer catch up."""
    steps: list[Step] = []
    while (rate := search.next_rate(steps)) is not None:
        measured = bench.measure(rate)
        steps.append(judge(measured, p99_ms_max))
        report(steps[-1])
        if not measured.is_drained:
            # The next rate would be measured after leftover rows of this one.
            break
    return Ramp(steps, highest_that_holds(steps))


def tap_at_end(log: Log[bytes], query: Query, load: Load) -> ResultsTap:
    """Reads results and refused rows from now on. Raises ConfigurationError if no service ever ran."""
    topic = topic_name(query.name, Topic.RESULTS)
    if not log.partitions(topic):
        raise ConfigurationError(
            f"Kafka has no topic {topic!r}: start the services of {query.name} first, or use --local"
        )
    sources = [LogPartition(topic, number) for number in range(log.partitions(topic))]
    (results, end), *others = [(each, log.bounds(each).end) for each in sources]
    letters = [LogPartition(dead_letter_topic(load.topic_of(stream.name)), 0) for stream in load.workload.streams]
    there = [(each, log.bounds(each).end) for each in letters if log.partitions(each.topic)]
    return ResultsTap(log.reader(), results, end, there, others)


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
    """A function that prints a line per step."""

    def report(step: Step) -> None:
        p99 = "-" if step.latency_ms_p99 is None else f"{step.latency_ms_p99:,.0f} ms"
        verdict = "holds" if step.holds else f"doesn't hold: {step.verdict}"
        console.print(f"{step.rate:>12,.0f} rows/s  p99 {p99:>9}  {verdict}", highlight=False, soft_wrap=True)

    return report


STATUS_NONE_HOLDS = 1


def run_ramp(file: RampFile) -> int:
    """Find the highest rate that holds, and write the report; the exit status is 0 if any rate holds."""
    console = log_console()
    about = {**machine.describe(), "workload": file.workload.value, "p99_ms_max": file.p99_ms}
    about |= {"started": datetime.now(UTC).isoformat(timespec="seconds")}
    query = file.query()
    search = Search(file.start, most=max(file.max, file.start), precision=file.precision)
    times = StepTimes(ending(file.settle), ending(file.measure), ending(file.drain))
    with ending_on_signals(), ExitStack() as stack:
        where, tend = _services(stack, file, console)
        log = stack.enter_context(where.opened())
        load = producing.settled(log, file.load(file.start, file.measure), file.rows.partitions)
        tap = tap_at_end(log, query, load)
        stack.callback(tap.close)
        bench = Bench(load, tap, lambda: KafkaSender(where, load.message), times, tend)
        fill_windows(bench, query, file.fill, console.print)
        bench.show = stack.enter_context(stepping(console))
        found = climb(bench, search, file.p99_ms, step_teller(console))
    console.print(table(found, file.workload.value))
    write(found, file.output, about, file.p99_ms)
    console.print(f"{file.output / 'ramp.html'} and {file.output / 'ramp.json'} written", highlight=False)
    return 0 if found.best is not None else STATUS_NONE_HOLDS


def _services(stack: ExitStack, file: RampFile, console: Console) -> tuple[Connection, Callable[[], None]]:
    """Kafka, and a function that tends the services started here; it does nothing if they already run."""
    if not file.local:
        return file.connection(), lambda: None
    served = stack.enter_context(serve(file.serve_plan(), progress=console.print))
    console.print(served.about, highlight=False)
    return Connection(served.servers.bootstrap), served.supervisor.tend
