"""Section `start`: `spojoin run` on a small file as a whole process, compared with importing its libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow.csv as pa_csv

from loadgen.bench.measurement import Measurement, at_most, best_seconds
from loadgen.promises.data import columns, self_join_text
from loadgen.promises.embedded import WORKLOAD
from loadgen.promises.sizes import Context

START_BAR = at_most(1)
ROWS, WINDOW, SLIDE = 1_000, 500, 50
LIBRARIES = [sys.executable, "-c", "import pyarrow, numba"]


def measure(context: Context) -> Iterator[Measurement]:
    """Seconds from start to exit of both, the best of several in alternation, and their ratio."""
    query, source, output = (context.scratch / name for name in ("small.yaml", "small.csv", "small.jsonl"))
    query.write_text(self_join_text(WINDOW, SLIDE))
    pa_csv.write_csv(columns(WORKLOAD, ROWS).table(), source)
    command = [sys.executable, "-m", "spojoin.cli.main", "run", str(query), "-i", f"rows={source}", "-o", str(output)]

    context.say(f"starts of spojoin run, {ROWS:,} rows of CSV")
    best = best_seconds(
        {"run": partial(_ended, [*command, "--quiet"]), "libraries": partial(_ended, LIBRARIES)}, context.sizes.repeats
    )
    note = f"{ROWS:,} rows of CSV; kernels compiled before"
    yield Measurement("spojoin run from start to exit", best["run"], "s", START_BAR, note)
    yield Measurement("import pyarrow, numba", best["libraries"], "s", note="a process that does nothing else")
    yield Measurement("spojoin run / import pyarrow, numba", best["run"] / best["libraries"], "times")


def _ended(command: Sequence[str]) -> None:
    """Run a command to its end. Raises CalledProcessError with its output if it fails."""
    subprocess.run(command, check=True, capture_output=True)
