"""Which functions an expression may call: scalar ones that DuckDB's catalog declares deterministic, by overload."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import duckdb

from spojoin.suggest import closest

_CHANGES = "gives another value at each call, so that a restart would change results"
_MOMENT = (
    f"{_CHANGES}: write the moment as a constant, such as TIMESTAMP '2024-03-01 10:00:00' or DATE '2024-03-01'; "
    "an open end is TIMESTAMP 'infinity' or DATE 'infinity'"
)
_READS_CLOCK = frozenset(
    {"ago", "current_date", "current_datetime", "current_localtime", "current_localtimestamp", "current_time"}
    | {"current_timestamp", "get_current_time", "get_current_timestamp", "localtime", "localtimestamp", "now", "today"}
    | {"pg_conf_load_time", "pg_postmaster_start_time", "transaction_timestamp"}
)
#: Functions that some releases declare deterministic although they read the session, files or the storage of rows.
_READS_SESSION = frozenset(
    {"current_catalog", "current_role", "current_setting", "current_user", "get_block_size", "getenv", "getvariable"}
    | {"session_user", "user", "vector_type", "version"}
)
_WAITS = frozenset({"pg_sleep", "sleep_ms"})
_OF_TABLES = {"table", "table_macro", "pragma"}
#: Volatile in the catalog, so that it isn't computed ahead; it only reports why a row has no value.
_FAILS_ALIKE = "error"
#: An overload with such a type reads only the session's time zone, which is UTC: see `engine.connected`.
_ZONED = re.compile(r"WITH TIME ZONE|TIMESTAMPTZ|TIMETZ")
_IN_QUOTES = re.compile(r"'[^']*'")
_CALLED = re.compile(r'(\w+)"?\(')


class _Known:
    """A name in DuckDB's catalog: its kinds (scalar, aggregate, ...), and whether a call's value may change."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.is_volatile = False
        self.definitions: list[str] = []


@functools.cache
def _catalog() -> dict[str, _Known]:
    with duckdb.connect() as connection:
        overloads = connection.execute(
            "SELECT lower(function_name), function_type, stability, parameter_types::VARCHAR, return_type, "
            "macro_definition FROM duckdb_functions()"
        ).fetchall()
    found: dict[str, _Known] = {}
    for name, kind, stability, parameters, returned, definition in overloads:
        known = found.setdefault(name, _Known())
        known.kinds.add(kind)
        known.is_volatile |= _is_volatile(name, stability, parameters or "[]", returned or "")
        known.definitions += filter(None, [definition])
    return found


def _is_volatile(name: str, stability: str | None, parameters: str, returned: str) -> bool:
    """Whether an overload's value may differ from call to call although the session's time zone stays the same."""
    if stability in (None, "CONSISTENT") or name == _FAILS_ALIKE:
        return False
    reads_zone = parameters != "[]" and _ZONED.search(parameters + returned) is not None
    return stability != "CONSISTENT_WITHIN_QUERY" or not reads_zone


def why_refused(name: str, arguments: int | None = None) -> str | None:
    """Why an expression may not call a function, as the end of a sentence; None if it may or the name is unknown.

    arguments: the number of arguments, if it is known: age() of two times reads no clock
    """
    plain = name.lower()
    if plain == "age":
        return None if arguments == 2 else _MOMENT
    return next((why for each in (plain, *_called_by(plain)) if (why := _why(each)) is not None), None)


def unknown_function(name: str) -> str | None:
    """A sentence about an unknown function, with the one that was probably meant; None if the function is known."""
    if name.lower() in _catalog():
        return None
    named = (each for each, known in _catalog().items() if each.isidentifier() and not known.is_volatile)
    meant = closest(name, named)
    hint = f"; did you mean {meant.upper()}?" if meant is not None else ""
    return f"no function is called {name.upper()}{hint}"


def _why(name: str) -> str | None:
    if name in _READS_CLOCK:
        return _MOMENT
    if name in _WAITS:
        return "waits, and all other rows with it: expected functions that compute a value"
    known = _catalog().get(name) or _Known()
    if name in _READS_SESSION or known.is_volatile:
        return _CHANGES
    what = _no_single_value(known.kinds)
    return what and f"{what}: expected functions of single values"


def _no_single_value(kinds: set[str]) -> str | None:
    if "aggregate" in kinds and "scalar" not in kinds:
        return "is an aggregate"
    if "window" in kinds:
        return "is a window function"
    return "gives a table" if kinds & _OF_TABLES and not kinds & {"scalar", "macro"} else None


def _called_by(name: str) -> Iterator[str]:
    """The functions that a macro calls, directly or through other macros."""
    waiting, seen = [name], {name}
    while waiting:
        known = _catalog().get(waiting.pop())
        for definition in known.definitions if known is not None and "scalar" not in known.kinds else ():
            called = {each.lower() for each in _CALLED.findall(_IN_QUOTES.sub("''", definition))} - seen
            yield from called
            seen |= called
            waiting += called


def is_aggregate(name: str) -> bool:
    """Whether DuckDB has an aggregate with this name, and no scalar function."""
    known = _catalog().get(name.lower()) or _Known()
    return "aggregate" in known.kinds and "scalar" not in known.kinds
