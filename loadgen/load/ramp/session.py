"""`loadgen ramp` from its file to its report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from rich.console import Console

from loadgen import machine
from loadgen.load import produce as producing
from loadgen.load.connection import Connection
from loadgen.load.durations import ending
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load_file import RampFile
from loadgen.load.progress import log_console, stepping
from loadgen.load.ramp import main as ramps
from loadgen.load.ramp.measure import Bench, StepTimes
from loadgen.load.ramp.search import Search
from spojoin.local.serve import serve
from spojoin.local.supervise import ending_on_signals

STATUS_NONE_HOLDS = 1


def climb(file: RampFile) -> int:
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
        tap = ramps.tap_at_end(log, query, load)
        stack.callback(tap.close)
        bench = Bench(load, tap, lambda: KafkaSender(where, load.message), times, tend)
        ramps.fill_windows(bench, query, file.fill, console.print)
        bench.show = stack.enter_context(stepping(console))
        found = ramps.climb(bench, search, file.p99_ms, ramps.step_teller(console))
    console.print(ramps.table(found, file.workload.value))
    ramps.write(found, file.output, about, file.p99_ms)
    console.print(f"{file.output / 'ramp.html'} and {file.output / 'ramp.json'} written", highlight=False)
    return 0 if found.best is not None else STATUS_NONE_HOLDS


def _services(stack: ExitStack, file: RampFile, console: Console) -> tuple[Connection, Callable[[], None]]:
    """Kafka, and what tends the services that are started here; nothing where they run already."""
    if not file.local:
        return file.connection(), lambda: None
    served = stack.enter_context(serve(file.serve_plan(), progress=console.print))
    console.print(served.about, highlight=False)
    return Connection(served.servers.bootstrap), served.supervisor.tend
