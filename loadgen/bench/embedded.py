"""Section `embedded`: `spojoin run` as a whole process, Parquet in and Parquet out, against NumPy's scan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from loadgen.bench.context import Context
from loadgen.bench.data import Columns, columns, self_join_text
from loadgen.bench.figures import Figure, at_least
from loadgen.bench.parts import run_by_part
from loadgen.bench.scans import NUMPY_SCANS, ScanTime, time_scans
from loadgen.bench.window import check_counts

RATIO_BAR = at_least(120)
REACH_FOR = "to reach for: 500,000"
WORKLOAD = "uniform"
#: Results that are compared with a scan.
CHECKED = 8


def measure(context: Context) -> Iterator[Figure]:
    """Throughput with the window full, its ratio to scans before and after, and where the time goes."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.embedded_after)
    query, source, output = (context.scratch / name for name in ("query.yaml", "rows.parquet", "counts.parquet"))
    query.write_text(self_join_text(sizes.window, sizes.slide))
    pq.write_table(data.table(), source)

    context.say("a first run, which compiles and isn't timed")
    run(query, _shortened(source, sizes.slide), output)
    context.say(f"spojoin run, {len(data):,} tuples")
    before = _scan(context, data)
    told = run(query, source, output)
    after = _scan(context, data)
    counts = pq.read_table(output)
    check_counts(data, sizes.window, sizes.slide, counts, CHECKED)
    yield from _figures(told, min(before, after, key=lambda timed: timed.both_roles_us))

    context.say("the same in this process, timed part by part")
    yield from run_by_part(query, source, output, sizes.window)


def run(query: Path, source: Path, output: Path) -> dict[str, float]:
    """Run the command and return its report. Raises RuntimeError, with what it said, where it fails."""
    report = output.with_suffix(".json")
    command = [sys.executable, "-m", "spojoin.cli.main", "run", str(query), "--input", f"rows={source}"]
    command += ["--output", str(output), "--report", str(report), "--quiet"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    told: dict[str, float] = json.loads(report.read_bytes())
    return told


def _figures(told: dict[str, float], scan: ScanTime) -> Iterator[Figure]:
    rate = told["tuples_per_second_window_full"]
    note = f"over {told['tuples_window_full']:,} tuples; {told['tuples_per_second']:,.0f} from the start; {REACH_FOR}"
    yield Figure("spojoin run, window full", rate, "tuples/s", note=note)
    ratio = rate * scan.both_roles_us / 1e6
    baseline = f"{scan.name}, both roles, {scan.both_roles_us:.0f} us"
    yield Figure("spojoin run, NumPy's scan / tuple", ratio, "times", RATIO_BAR, baseline)
    yield Figure("spojoin run, peak memory", told["peak_rss_bytes"] / (1 << 20), "MiB")


def _scan(context: Context, data: Columns) -> ScanTime:
    sizes = context.sizes
    probes = data[sizes.window : sizes.window + sizes.scan_probes]
    return time_scans(data[: sizes.window], probes, sizes.repeats, NUMPY_SCANS)


def _shortened(source: Path, rows: int) -> Path:
    path = source.with_name("few.parquet")
    pq.write_table(pq.read_table(source).slice(0, rows), path)
    return path
