"""Translates calls of other dialects' functions into DuckDB's dialect."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from spojoin.query.places import Edit

_UNITS = {
    "microsecond": "mcs us",
    "millisecond": "ms",
    "second": "s ss sec",
    "minute": "n mi min",
    "hour": "h hh",
    "day": "d dd",
    "week": "wk ww",
    "month": "mm mon",
    "quarter": "q qq",
    "year": "y yy yyyy",
}
_UNIT_OF = {word: unit for unit, others in _UNITS.items() for word in (unit, f"{unit}s", *others.split())}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")

#: Gives DuckDB's form of a call with the given arguments; None if the call is already DuckDB's.
_Form = Callable[[Sequence[str]], str | None]


def translated_calls(sql: str, masked: str) -> tuple[str, list[Edit]] | None:
    """The first function that DuckDB lacks, and the edits that correct all calls of such functions; None without one.

    masked: the text without literals and comments, character for character
    """
    first, text = "", sql
    for _ in range(100):  # calls may be nested: inner ones, which begin later, come first
        found = next(filter(None, (_translated(text, masked, each) for each in reversed(_calls(masked)))), None)
        if found is None:
            break
        name, start, end, new = found
        first = name
        text = text[:start] + new + text[end:]
        masked = masked[:start] + re.sub(r"'[^']*'", lambda quoted: "'" * len(quoted[0]), new) + masked[end:]
    return (first, [(0, len(sql), text)]) if first else None


def _calls(masked: str) -> list[re.Match[str]]:
    return list(_CALL.finditer(masked))


def _translated(text: str, masked: str, call: re.Match[str]) -> tuple[str, int, int, str] | None:
    """A call's name, its start and end, and its replacement; None if the call is DuckDB's own."""
    name = call[1].upper()
    form = _FORMS.get(name) or _by_beginning(name)
    parts = _arguments(masked, call.end()) if form is not None else []
    if form is None or not parts:
        return None
    end = parts[-1][1] + 1
    new = form([text[start:stop].strip() for start, stop in parts])
    if name in _WITHIN_GROUP and (within := _WITHIN.match(masked, end)) is not None:
        new = f"STRING_AGG({text[parts[0][0] : parts[-1][1]].strip()} {text[slice(*within.span(1))]})"
        end = within.end()
    return None if new is None else (name, call.start(), end, new)


def _arguments(masked: str, at: int) -> list[tuple[int, int]]:
    """The start and end of each argument after the opening parenthesis; empty if no parenthesis closes it."""
    found: list[tuple[int, int]] = []
    depth, start = 0, at
    for k in range(at, len(masked)):
        if masked[k] in "([{":
            depth += 1
        elif masked[k] in ")]}" and depth:
            depth -= 1
        elif masked[k] == ")":
            return [*found, (start, k)]
        elif masked[k] == "," and not depth:
            found.append((start, k))
            start = k + 1
    return []


def _unit(text: str) -> str | None:
    return _UNIT_OF.get(text.lower())


def _interval(number: str, unit: str) -> str:
    return f"INTERVAL '{number} {unit}s'" if _NUMBER.fullmatch(number) else f"({number}) * INTERVAL '1 {unit}'"


def _added(parts: Sequence[str]) -> str | None:
    """Translates DATEADD(minute, 5, l.at)."""
    unit = _unit(parts[0].strip("'")) if len(parts) == 3 else None
    return None if unit is None else f"{parts[2]} + {_interval(parts[1], unit)}"


def _differ(function: str) -> _Form:
    """Translates DATEDIFF(minute, l.at, r.at), TIMESTAMP_DIFF(r.at, l.at, MINUTE), and DATEDIFF(r.at, l.at) in days."""

    def form(parts: Sequence[str]) -> str | None:
        if len(parts) == 2 and not parts[0].startswith("'"):
            return f"date_diff('day', {parts[1]}, {parts[0]})"
        if len(parts) == 3 and (unit := _unit(parts[0])):
            return f"{function}('{unit}', {parts[1]}, {parts[2]})"
        if len(parts) == 3 and (unit := _unit(parts[2])):
            return f"{function}('{unit}', {parts[1]}, {parts[0]})"
        return None

    return form


def _shifted(sign: str) -> _Form:
    """Translates TIMESTAMP_ADD(l.at, INTERVAL 5 MINUTE)."""
    return lambda parts: (
        f"{parts[0]} {sign} {parts[1]}" if len(parts) == 2 and parts[1].upper().startswith("INTERVAL") else None
    )


def _truncated(parts: Sequence[str]) -> str | None:
    """Translates DATE_TRUNC(l.at, HOUR) and DATE_TRUNC(HOUR, l.at)."""
    if len(parts) != 2:
        return None
    units = [_unit(each) for each in parts]
    if units[0]:
        return f"date_trunc('{units[0]}', {parts[1]})"
    return f"date_trunc('{units[1]}', {parts[0]})" if units[1] else None


def _by(template: str, count: int) -> _Form:
    """A form that inserts `count` arguments into a template by their places."""
    return lambda parts: template.format(*parts) if len(parts) == count and all(parts) else None


def _part(parts: Sequence[str]) -> str | None:
    unit = _unit(parts[0]) if len(parts) == 2 else None
    return None if unit is None else f"date_part('{unit}', {parts[1]})"


def _epoch_of(parts: Sequence[str]) -> str | None:
    is_epoch = len(parts) == 2 and parts[0] == "'%s'"
    return f"CAST(epoch({parts[1]}) AS BIGINT)" if is_epoch else None


def _decoded(parts: Sequence[str]) -> str | None:
    """Translates DECODE(x, 1, 'a', 'b'), in which NULL equals NULL."""
    if len(parts) < 3:
        return None
    pairs = zip(parts[1::2], parts[2::2], strict=False)
    cases = " ".join(f"WHEN {parts[0]} IS NOT DISTINCT FROM {value} THEN {then}" for value, then in pairs)
    return f"CASE {cases}{f' ELSE {parts[-1]}' if len(parts) % 2 == 0 else ''} END"


def _of_unit(parts: Sequence[str]) -> str | None:
    unit = _unit(parts[1].strip("'")) if len(parts) == 2 else None
    return None if unit is None else _interval(parts[0], unit)


def _joined_text(parts: Sequence[str]) -> str | None:
    """Translates GROUP_CONCAT(x ORDER BY y SEPARATOR ',')."""
    found = re.fullmatch(r"(?is)(.*?)(\s+ORDER\s+BY\s+.*?)?(?:\s+SEPARATOR\s+('.*'))?", ", ".join(parts))
    if found is None or not (found[2] or found[3]):
        return None
    return f"STRING_AGG({found[1]}, {found[3] or repr(',')}{found[2] or ''})"


def _by_beginning(name: str) -> _Form | None:
    """Translates ClickHouse's toIntervalMinute(5), addMinutes(l.at, 5) and subtractMinutes(l.at, 5)."""
    found = re.fullmatch(r"(TOINTERVAL|ADD|SUBTRACT)([A-Z]+)", name)
    unit = _unit(found[2]) if found else None
    if found is None or unit is None:
        return None
    if found[1] == "TOINTERVAL":
        return lambda parts: _interval(parts[0], unit) if len(parts) == 1 else None
    sign = "+" if found[1] == "ADD" else "-"
    return lambda parts: f"{parts[0]} {sign} {_interval(parts[1], unit)}" if len(parts) == 2 else None


_WITHIN = re.compile(r"\s*WITHIN\s+GROUP\s*\((\s*ORDER\s+BY\s+[^()]*)\)", re.IGNORECASE)
_WITHIN_GROUP = ("LISTAGG", "STRING_AGG")
_CHOICE = _by("CASE WHEN {0} THEN {1} ELSE {2} END", 3)
_EPOCH = _by("epoch({0})", 1)
_FORMS: dict[str, _Form] = {
    **dict.fromkeys(("DATEADD", "TIMEADD", "TIMESTAMPADD", "DATE_ADD"), _added),
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF", "TIMEDIFF", "DATETIME_DIFF", "TIME_DIFF"), _differ("date_diff")),
    **dict.fromkeys(("TIMESTAMPDIFF", "TIMESTAMP_DIFF"), _differ("date_sub")),
    **dict.fromkeys(("TIMESTAMP_ADD", "DATETIME_ADD", "TIME_ADD"), _shifted("+")),
    **dict.fromkeys(("TIMESTAMP_SUB", "DATETIME_SUB", "DATE_SUB"), _shifted("-")),
    **dict.fromkeys(("DATE_TRUNC", "TIMESTAMP_TRUNC", "DATETIME_TRUNC"), _truncated),
    **dict.fromkeys(("UNIX_TIMESTAMP", "TO_UNIXTIME", "TOUNIXTIMESTAMP", "UNIX_SECONDS"), _EPOCH),
    **dict.fromkeys(("FROM_UNIXTIME", "TIMESTAMP_SECONDS"), _by("make_timestamp(CAST({0} AS BIGINT) * 1000000)", 1)),
    **dict.fromkeys(("IFF", "IIF"), _CHOICE),
    **dict.fromkeys(("NVL", "ISNULL"), _by("COALESCE({0}, {1})", 2)),
    "NVL2": _by("CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END", 3),
    "ZEROIFNULL": _by("COALESCE({0}, 0)", 1),
    "DECODE": _decoded,
    "UNIX_MILLIS": _by("epoch_ms({0})", 1),
    "UNIX_MICROS": _by("epoch_us({0})", 1),
    "STRFTIME": _epoch_of,
    "JULIANDAY": _by("julian({0})", 1),
    "NUMTODSINTERVAL": _of_unit,
    "DATEPART": _part,
    "CONVERT": _by("CAST({1} AS {0})", 2),
    "CHARINDEX": _by("strpos({1}, {0})", 2),
    "TODATE": _by("CAST({0} AS DATE)", 1),
    "COLLECT_LIST": _by("LIST({0}) FILTER (WHERE {0} IS NOT NULL)", 1),
    "COLLECT_SET": _by("LIST(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL)", 1),
    "GROUPARRAY": _by("LIST({0}) FILTER (WHERE {0} IS NOT NULL)", 1),
    "UNIQEXACT": _by("COUNT(DISTINCT {0})", 1),
    "GROUP_CONCAT": _joined_text,
    "LISTAGG": lambda _: None,
    "STRING_AGG": lambda _: None,
}
