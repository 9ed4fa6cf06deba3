"""A process that measures one Python engine and prints its progress: see README.md, "An engine"."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

from loadgen.engines.adapters.engine import PythonEngine, pieces
from loadgen.engines.adapters.spojoin import SpoJoin
from loadgen.engines.workloads import MARKS, EngineWorkload, workload
from loadgen.papers.methods.catalog import METHODS
from spojoin.errors import SpoJoinError

#: The number of rows handed over at once.
ROWS = 8_192
#: The size of a small first run, which compiles code.
WARM_WINDOW, WARM_PROBES = 100, 512
#: Adapters that need further packages are imported on demand.
PACKAGES = {
    "duckdb": ("loadgen.engines.adapters.duckdb", "DuckDB"),
    "polars": ("loadgen.engines.adapters.polars", "Polars"),
}


def make(name: str) -> Callable[[EngineWorkload], PythonEngine]:
    """The factory of an engine. Raises ModuleNotFoundError if its package is missing."""
    if name in METHODS:
        return lambda asked: SpoJoin(asked, name)
    module, made = PACKAGES[name]
    factory: Callable[[EngineWorkload], PythonEngine] = getattr(importlib.import_module(module), made)
    return factory


def main(arguments: list[str]) -> None:
    """Run until the last mark, or until the parent ends the process."""
    name, question, variant, window = arguments
    try:
        factory = make(name)
        warm = factory(workload(question, variant, WARM_WINDOW))
        measure(warm, MARKS[: MARKS.index(WARM_PROBES) + 1], lambda _: None)
        measure(factory(workload(question, variant, int(window))), MARKS, say)
    except ModuleNotFoundError as error:
        say({"refused": f"{error.name} is not installed: pip install 'spojoin-loadgen[engines]'"})
    except SpoJoinError as error:
        say({"refused": str(error)})


def measure(engine: PythonEngine, marks: tuple[int, ...], say: Callable[[dict[str, object]], None]) -> None:
    """Fill the window, then probe from mark to mark, and report the totals."""
    fill = engine.workload.fill
    for first, last in pieces(0, fill, ROWS):
        engine.fill(first, last)
    say({"filled": fill, "version": engine.version})
    done, total, began, cpu = 0, 0, time.perf_counter(), time.process_time()
    for mark in marks:
        for first, last in pieces(fill + done, fill + mark, ROWS):
            total += engine.probe(first, last)
        done = mark
        say({"mark": mark, "total": total, "s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu})


def say(what: dict[str, object]) -> None:
    """Print a line of JSON for the parent."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
