"""Words of other dialects, looked for once a statement can't be read or bound, and what says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from spojoin.errors import QueryError
from spojoin.query.foreign import of_another
from spojoin.query.foreign_calls import translated_calls
from spojoin.query.mended import Mended, mending

_UNTIL_CLOSED = r"\((?:[^()]|\([^()]*\))*\)"

_Rule = tuple[str, re.Pattern[str], str]


def _rule(word: str, pattern: str, instead: str) -> _Rule:
    return word, re.compile(pattern, re.IGNORECASE), instead


#: What is written, what it is found by in a text without literals and comments, and what says the same.
_RULES: list[_Rule] = [
    _rule("OPTION", rf"\s*\bOPTION\s*{_UNTIL_CLOSED}", ""),
    _rule("WITH (NOLOCK)", r"\s*\bWITH\s*\(\s*NOLOCK\s*\)", ""),
    _rule("FOR UPDATE", r"\s*\bFOR\s+UPDATE\b", ""),
    _rule("MINUS", r"\bMINUS(?=\s+(?:ALL\s+)?\(?\s*SELECT\b)", "EXCEPT"),
    _rule("CROSS APPLY", r"\bCROSS\s+APPLY\b", "CROSS JOIN LATERAL"),
    _rule("OUTER APPLY", rf"\bOUTER\s+APPLY\s*({_UNTIL_CLOSED}\s*(?:AS\s+)?\w+)", r"LEFT JOIN LATERAL \1 ON true"),
    _rule("WITH ROLLUP", r"\bGROUP\s+BY\s+([\w.,\s]+?)\s+WITH\s+ROLLUP\b", r"GROUP BY ROLLUP (\1)"),
    _rule("LIMIT with a comma", r"\bLIMIT\s+(\d+)\s*,\s*(\d+)", r"LIMIT \2 OFFSET \1"),
    _rule("EMIT CHANGES", r"\s*\bEMIT\s+CHANGES\b", ""),
    _rule("EMIT FINAL", r"\bEMIT\s+(?:FINAL|ON\s+WINDOW\s+CLOSE)\b", "EMIT ON CLOSE"),
    _rule("<=>", r"<=>", "IS NOT DISTINCT FROM"),
    _rule("!<", r"!<", ">="),
    _rule("!>", r"!>", "<="),
    _rule("^=", r"\^=", "<>"),
    _rule("`", r"`", '"'),
    _rule("[", r"(?<=\.)\[(\w[^\[\]]*)\]", r'"\1"'),
]
#: What stands behind LIMIT.
_LAST = re.compile(r";|\b(?:WINDOW\s+AS|EMIT\s+ON)\b", re.IGNORECASE)
_TOP = re.compile(r"\bSELECT\s+(DISTINCT\s+)?(TOP\s+(?:(\d+)|\(\s*(\d+)\s*\))\s*)", re.IGNORECASE)


@contextmanager
def translating(text: str) -> Iterator[None]:
    """As `mending`; but a mistake of a statement that has words of another dialect is that it has these."""
    try:
        with mending(text):
            yield
    except QueryError as error:
        if (found := _word_of_another(text, error.line)) is None:
            raise
        with mending(text):
            raise found from error


def _word_of_another(sql: str, line: int | None) -> Mended | None:
    """What is wrong with a statement that can't be read or bound, where that is a word of another dialect."""
    masked = _masked(sql)
    if masked is None:
        return None
    for word, pattern, instead in _RULES:
        found = pattern.search(masked)
        if found is not None:
            edits = [(*each.span(), _expanded(sql, each, instead)) for each in pattern.finditer(masked)]
            return of_another(word, line, edits)
    if (top := _TOP.search(masked)) is not None:
        end = _end_of_select(masked, top.start())
        return of_another("TOP", line, [(*top.span(2), ""), (end, end, f" LIMIT {top[3] or top[4]}")])
    called = translated_calls(sql, masked)
    return None if called is None else of_another(called[0], line, called[1])


def _expanded(sql: str, found: re.Match[str], instead: str) -> str:
    """What stands in place of words; groups as they are in the text with its literals."""
    return re.sub(r"\\(\d)", lambda group: sql[slice(*found.span(int(group[1])))], instead)


def _masked(sql: str) -> str | None:
    """The text without what stands in literals, quotes and comments, character for character; None if it has no end."""
    try:
        tokens = sqlglot.tokenize(sql, dialect="duckdb")
    except SqlglotError:
        return None
    found, at = "", 0
    for token in tokens:
        length = token.end + 1 - token.start
        is_literal = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        found += " " * (token.start - at) + ("'" * length if is_literal else sql[token.start : token.end + 1])
        at = token.end + 1
    return found + " " * (len(sql) - at)


def _end_of_select(masked: str, start: int) -> int:
    """Where LIMIT stands: before what closes around a SELECT, a semicolon, or clauses of this dialect."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] == "(") - (masked[at] == ")")
        if depth < 0 or (depth == 0 and _LAST.match(masked, at)):
            return len(masked[:at].rstrip())
    return len(masked.rstrip())
