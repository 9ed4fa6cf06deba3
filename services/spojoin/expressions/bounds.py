"""What one row may cost: bytes that its expressions make, and processor time.

Functions that can make much of little stand behind a guard, a macro of the function's own name that a statement calls
without knowing: DuckDB's limit of memory doesn't count what functions make, and no call is interrupted before it
returns. Whatever else takes long is interrupted.
"""

from __future__ import annotations

import re

import duckdb

#: The most that one call makes of a row: as much as Kafka takes as a message by default.
BYTES_MAX = 1_048_576
#: Values of eight bytes.
ELEMENTS_MAX = BYTES_MAX // 8
#: Steps of functions that take one for each pair of characters: some tenths of a second.
STEPS_MAX = 100_000_000

_TOO_MUCH = f"would make more than {BYTES_MAX:,} bytes of one row"
_TOO_SLOW = f"would take more than {STEPS_MAX:,} steps for one row"


def _guard(name: str, *overloads: tuple[str, str, str], why: str = _TOO_MUCH) -> str:
    """The macro of a function. overloads: parameters, the one of them that is held, and when a call is refused.

    The argument stands behind the condition, not the call: DuckDB computes calls of constants beforehand.
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
    """Whether there are too many values from `begin` to `end`: numbers or, by a step that is an interval, times."""
    numbers = f"({_as('DOUBLE', end)} - {_as('DOUBLE', begin)}) / {_as('DOUBLE', step)}"
    times = f"(epoch({_as('TIMESTAMP', end)}) - epoch({_as('TIMESTAMP', begin)})) / epoch({_as('INTERVAL', step)})"
    return f"coalesce({numbers}, {times}) > {ELEMENTS_MAX}"


_PADDED = ("s, n, c", "n", f"n > {BYTES_MAX // 4}")  # a character has up to four bytes
_RESIZED = [(parameters, "n", f"n > {ELEMENTS_MAX}") for parameters in ("x, n", "x, n, v")]
_SERIES = [("a", "a", _is_long("a")), ("a, b", "b", _is_long("b", "a")), ("a, b, c", "b", _is_long("b", "a", "c"))]
_PAIRS = "CAST(strlen(a) AS HUGEINT) * strlen(b)"
_ADDED = "CAST(strlen(s) - strlen(system.main.replace(s, a, '')) AS HUGEINT) * strlen(b)"
_GUARDS = {
    "repeat": _guard("repeat", ("x, n", "n", f"CAST(strlen(CAST(x AS VARCHAR)) AS HUGEINT) * n > {BYTES_MAX}")),
    "replace": _guard("replace", ("s, a, b", "b", f"strlen(b) > 1 AND {_ADDED} > {BYTES_MAX} * strlen(a)")),
    "bitstring": _guard("bitstring", ("x, n", "n", f"n > {8 * BYTES_MAX}")),
    # It holds a number for each step.
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
    """Put the guards of the functions that a text may call into a connection."""
    for name in {found.lower() for found in _NAMED.findall(sql)}:
        connection.execute(_GUARDS[name])
