"""Section `embedded`: `spojoin run` as a whole process, Parquet in and Parquet out, against NumPy's scan."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from loadgen.bench.measurement import Measurement, at_least
from loadgen.promises.data import Columns, check_counts, columns, self_join_text
from loadgen.promises.parts import run_by_part
from loadgen.promises.scan import NUMPY_SCANS, ScanTime, time_scans
from loadgen.promises.sizes import Context
from spojoin.local.usage import Usage, usage_of

RATIO_BAR = at_least(120)
REACH_FOR = "to reach for: 500,000"
WORKLOAD = "uniform"
#: The interval at which the command's usage is read.
POLL_S = 0.05
#: The number of results to compare with a scan.
CHECKED = 8


def measure(context: Context) -> Iterator[Measurement]:
    """Throughput with a full window, its ratio to scans before and after, and the time by part."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.embedded_after)
    query, source, output = (context.scratch / name for name in ("query.yaml", "rows.parquet", "counts.parquet"))
    query.write_text(self_join_text(sizes.window, sizes.slide))
    pq.write_table(data.table(), source)

    context.say("a first run, which compiles and isn't timed")
    run(query, _shortened(source, sizes.slide), output)
    context.say(f"spojoin run, {len(data):,} tuples")
    before = _scan(context, data)
    found, used = run(query, source, output)
    after = _scan(context, data)
    counts = pq.read_table(output)
    check_counts(data, sizes.window, sizes.slide, counts, CHECKED)
    yield from _figures(found, used, min(before, after, key=lambda timed: timed.both_directions_us))

    context.say("the same in this process, timed part by part")
    yield from run_by_part(query, source, output, sizes.window)


def run(query: Path, source: Path, output: Path) -> tuple[dict[str, float], Usage]:
    """Run the command; returns its report and usage. Raises RuntimeError with its output if it fails.

    The peak in the report may be this process's, since a child starts with its parent's peak.
    """
    report, log = output.with_suffix(".json"), output.with_suffix(".log")
    command = [sys.executable, "-m", "spojoin.cli.main", "run", str(query), "--input", f"rows={source}"]
    command += ["--output", str(output), "--report", str(report), "--quiet"]
    used = Usage(0.0, 0)
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            while process.poll() is None:
                now = usage_of(process.pid)
                # A process that has just ended no longer reports its memory.
                used = now if now and now.peak_rss_bytes else used
                time.sleep(POLL_S)
        finally:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()}")
    found: dict[str, float] = json.loads(report.read_bytes())
    return found, used


def _figures(found: dict[str, float], used: Usage, scan: ScanTime) -> Iterator[Measurement]:
    rate = found["tuples_per_second_window_full"]
    note = f"over {found['tuples_window_full']:,} tuples; {found['tuples_per_second']:,.0f} from the start; {REACH_FOR}"
    yield Measurement("spojoin run, window full", rate, "tuples/s", note=note)
    ratio = rate * scan.both_directions_us / 1e6
    baseline = f"{scan.name}, both directions, {scan.both_directions_us:.0f} us"
    yield Measurement("spojoin run, NumPy's scan / tuple", ratio, "times", RATIO_BAR, baseline)
    yield Measurement("spojoin run, peak memory", used.peak_rss_bytes / (1 << 20), "MiB")
    yield Measurement(
        "spojoin run, CPU", used.cpu_s / found["tuples"] * 1e6, "us a tuple", note="start and filling included"
    )


def _scan(context: Context, data: Columns) -> ScanTime:
    sizes = context.sizes
    probes = data[sizes.window : sizes.window + sizes.scan_probes]
    return time_scans(data[: sizes.window], probes, sizes.repeats, NUMPY_SCANS)


def _shortened(source: Path, rows: int) -> Path:
    path = source.with_name("few.parquet")
    pq.write_table(pq.read_table(source).slice(0, rows), path)
    return path
