"""Which functions an expression may call: deterministic ones of single values."""

from __future__ import annotations

import functools

import duckdb

#: Deterministic by DuckDB's catalog, though they read the clock, the session or its files.
_REFUSED = frozenset({"age", "getenv", "version", "current_user", "session_user", "user"})
#: Macros and words of SQL that stand for such a function.
_MACROS = frozenset(
    {"current_role", "current_catalog", "current_localtime", "current_localtimestamp", "localtimestamp"}
    | {"current_timestamp", "current_time", "current_date", "current_datetime", "localtime"}
)


@functools.cache
def _catalog() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """For each function its kinds (scalar, aggregate, ...) and stabilities, as DuckDB's catalog has them."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT lower(function_name), list(DISTINCT function_type), list(DISTINCT stability) "
            "FROM duckdb_functions() GROUP BY 1"
        ).fetchall()
    return {name: (frozenset(kinds), frozenset(filter(None, stable))) for name, kinds, stable in found}


def why_refused(name: str, arguments: int | None = None) -> str | None:
    """Why an expression may not call a function, as the end of a sentence; None where it may, or none has that name.

    arguments: how many it is given, if that is known: age() of two times reads no clock
    """
    plain = name.lower()
    if (plain, arguments) == ("age", 2):
        return None
    kinds, stable = _catalog().get(plain, (frozenset(), frozenset()))
    if plain in _REFUSED | _MACROS or stable - {"CONSISTENT"}:
        return "gives another value at each call, so that a restart would change results"
    if "aggregate" in kinds and "scalar" not in kinds:
        return "is an aggregate: expected functions of single values"
    if "window" in kinds:
        return "is a window function: expected functions of single values"
    if kinds & {"table", "table_macro", "pragma"} and not kinds & {"scalar", "macro"}:
        return "gives a table: expected functions of single values"
    return None


def exists(name: str) -> bool:
    """Whether DuckDB has a function of that name."""
    return name.lower() in _catalog()
