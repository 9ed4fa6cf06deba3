"""Limits what one row may cost: the bytes that its expressions make, and processor time.

A function that can make large values from small ones has a guard: a macro of the same name, which statements call
instead. DuckDB's memory limit doesn't count the values that functions make, and a call can't be interrupted before it
returns. One thread of a process watches all evaluations and interrupts those that take too much processor time. It
doesn't use the clock, so that a busy machine refuses the same rows as an idle one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

#: The most bytes that one call may make from a row: the default size limit of a Kafka message.
BYTES_MAX = 1_048_576
#: The most values of eight bytes.
ELEMENTS_MAX = BYTES_MAX // 8
#: The most steps of functions that take a step for each pair of characters: some tenths of a second.
STEPS_MAX = 100_000_000

_TOO_MUCH = f"would make more than {BYTES_MAX:,} bytes of one row"
_TOO_SLOW = f"would take more than {STEPS_MAX:,} steps for one row"


def _guard(name: str, *overloads: tuple[str, str, str], why: str = _TOO_MUCH) -> str:
    """The macro of a function. overloads: the parameters, the guarded one, and the condition that refuses a call.

    The condition guards the argument, not the call: DuckDB computes calls of constants beforehand.
    """
    bodies = []
    for parameters, held, is_too_much in overloads:
        checked = f"CASE WHEN {is_too_much} THEN error('{name}() {why}') ELSE {held} END"
        arguments = ", ".join(checked if each == held else each for each in parameters.split(", "))
        bodies.append(f"({parameters}) AS system.main.{name}({arguments})")
    return f"CREATE OR REPLACE TEMP MACRO {name}{', '.join(bodies)}"


def _as(kind: str, what: str) -> str:
    return f"TRY_CAST(CAST({what} AS VARCHAR) AS {kind})"


def _is_long(end: str, begin: str = "0", step: str = "1") -> str:
    """SQL for whether `begin` to `end` has too many values: numbers, or times if the step is an interval."""
    numbers = f"({_as('DOUBLE', end)} - {_as('DOUBLE', begin)}) / {_as('DOUBLE', step)}"
    times = f"(epoch({_as('TIMESTAMP', end)}) - epoch({_as('TIMESTAMP', begin)})) / epoch({_as('INTERVAL', step)})"
    return f"coalesce({numbers}, {times}) > {ELEMENTS_MAX}"


_PADDED = ("s, n, c", "n", f"n > {BYTES_MAX // 4}")  # a character has at most four bytes
_RESIZED = [(parameters, "n", f"n > {ELEMENTS_MAX}") for parameters in ("x, n", "x, n, v")]
_SERIES = [("a", "a", _is_long("a")), ("a, b", "b", _is_long("b", "a")), ("a, b, c", "b", _is_long("b", "a", "c"))]
_PAIRS = "CAST(strlen(a) AS HUGEINT) * strlen(b)"
_ADDED = "CAST(strlen(s) - strlen(system.main.replace(s, a, '')) AS HUGEINT) * strlen(b)"
_GUARDS = {
    "repeat": _guard("repeat", ("x, n", "n", f"CAST(strlen(CAST(x AS VARCHAR)) AS HUGEINT) * n > {BYTES_MAX}")),
    "replace": _guard("replace", ("s, a, b", "b", f"strlen(b) > 1 AND {_ADDED} > {BYTES_MAX} * strlen(a)")),
    "bitstring": _guard("bitstring", ("x, n", "n", f"n > {8 * BYTES_MAX}")),
    # The function holds a number for each step.
    "damerau_levenshtein": _guard("damerau_levenshtein", ("a, b", "b", f"{_PAIRS} > {ELEMENTS_MAX}")),
    **{name: _guard(name, _PADDED) for name in ("lpad", "rpad")},
    **{name: _guard(name, *_RESIZED) for name in ("list_resize", "array_resize")},
    **{name: _guard(name, *_SERIES) for name in ("range", "generate_series")},
    **{
        name: _guard(name, ("a, b", "b", f"{_PAIRS} > {STEPS_MAX}"), why=_TOO_SLOW)
        for name in ("levenshtein", "editdist3")
    },
}
_NAMED = re.compile("|".join(rf"\b{name}\b" for name in _GUARDS), re.IGNORECASE)


def guard(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Add the guards of the functions that a text may call to a connection."""
    for name in {found.lower() for found in _NAMED.findall(sql)}:
        connection.execute(_GUARDS[name])


#: The processor time after which rows are tried again in smaller parts, and after which a single row is refused.
SECONDS_MAX = 2.0
#: At least this many characters of a statement are planned in a second; they are planned for each batch of rows.
_PLANNED_PER_S = 10_000
LOOK_S = 0.1


@dataclass(slots=True)
class _Evaluation:
    """A thread's evaluation, and its processor time when first checked, since reading that at each start costs more."""

    connection: duckdb.DuckDBPyConnection
    clock: int
    seconds: float
    began: float | None = None

    def look(self) -> None:
        now = time.clock_gettime(self.clock)
        if self.began is None:
            self.began = now
        elif now > self.began + self.seconds:
            self.connection.interrupt()


_running: dict[int, _Evaluation] = {}
_lock = threading.Lock()
_watcher: threading.Thread | None = None


@contextmanager
def watched(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[None]:
    """Interrupt the connection if this thread computes for too long in the block. Raises duckdb.InterruptException."""
    seconds = SECONDS_MAX + len(sql) / _PLANNED_PER_S
    own = threading.get_ident()
    _running[own] = _Evaluation(connection, time.pthread_getcpuclockid(own), seconds)
    _start()
    try:
        yield
    finally:
        with _lock:
            del _running[own]


def _start() -> None:
    global _watcher  # noqa: PLW0603  (one thread for all evaluations of a process)
    if _watcher is None or not _watcher.is_alive():
        with _lock:
            _watcher = threading.Thread(target=_watch, name="spojoin-watch", daemon=True)
            _watcher.start()


def _watch() -> None:
    while True:
        time.sleep(LOOK_S)
        _look()


def _look() -> None:
    """Check all evaluations once. In the thread's loop itself, a variable would keep the last one's connection."""
    with _lock:
        for each in _running.copy().values():
            each.look()
