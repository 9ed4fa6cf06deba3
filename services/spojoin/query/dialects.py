"""Finds words of other dialects, and proposes the same statement in DuckDB's dialect.

Most words are looked for only after a statement can't be read or bound. A few have another meaning here, so they are
looked for first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from spojoin.errors import QueryError
from spojoin.query.dialect_calls import translated_calls
from spojoin.query.nodes import DIALECT
from spojoin.query.places import Correctable, Edit, PlaceAt, correcting

_UNTIL_CLOSED = r"\((?:[^()]|\([^()]*\))*\)"

_Rule = tuple[str, re.Pattern[str], str]


def _rule(word: str, pattern: str, instead: str) -> _Rule:
    return word, re.compile(pattern, re.IGNORECASE), instead


#: Words of other dialects, how to find them in a text without literals and comments, and what to write instead.
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
#: LIMIT must come before these.
_LAST = re.compile(r";|\b(?:WINDOW\s+AS|EMIT\s+ON)\b", re.IGNORECASE)
_TOP = re.compile(r"\bSELECT\s+(DISTINCT\s+)?(TOP\s+(?:(\d+)|\(\s*(\d+)\s*\))\s*)", re.IGNORECASE)


@contextmanager
def correcting_dialects(text: str) -> Iterator[None]:
    """Like `correcting`, but if the statement has words of another dialect, report these as the mistake."""
    try:
        with correcting(text):
            yield
    except QueryError as error:
        if (found := _word_of_another(text, error.line)) is None:
            raise
        with correcting(text):
            raise found from error


def _word_of_another(sql: str, line: int | None) -> Correctable | None:
    """The error for a statement that can't be read or bound, if it has a word of another dialect."""
    masked = _masked(sql)
    if masked is None:
        return None
    for word, pattern, instead in _RULES:
        found = pattern.search(masked)
        if found is not None:
            edits = [(*each.span(), _expanded(sql, each, instead)) for each in pattern.finditer(masked)]
            return foreign_word(word, line, edits)
    if (top := _TOP.search(masked)) is not None:
        end = _end_of_select(masked, top.start())
        return foreign_word("TOP", line, [(*top.span(2), ""), (end, end, f" LIMIT {top[3] or top[4]}")])
    called = translated_calls(sql, masked)
    return None if called is None else foreign_word(called[0], line, called[1])


def _expanded(sql: str, found: re.Match[str], instead: str) -> str:
    """The replacement of the found words; its groups are taken from the text with literals."""
    return re.sub(r"\\(\d)", lambda group: sql[slice(*found.span(int(group[1])))], instead)


def _masked(sql: str) -> str | None:
    """The text with literals, quoted names and comments blanked, character for character; None if one doesn't end."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=DIALECT)
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
    """The place for LIMIT: before the parenthesis after a SELECT, a semicolon, or a clause that only spojoin has."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] == "(") - (masked[at] == ")")
        if depth < 0 or (depth == 0 and _LAST.match(masked, at)):
            return len(masked[:at].rstrip())
    return len(masked.rstrip())


#: Before JOIN, these words are other engines' hints on how to join.
_HINTS = ("STRAIGHT", "LOOKUP", "HASH", "MERGE", "LOOP", "BROADCAST", "REMOTE", "GLOBAL", "ANY", "ALL")
#: Functions of Flink, and kinds of windows of ksqlDB.
_WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_WINDOW_KINDS = ("TUMBLING", "HOPPING", "SESSION")

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(?=SELECT|WITH|FROM|\()", re.IGNORECASE)

#: The endings of file names.
_ENDINGS = ("csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "arrow", "feather", "ipc")


def first_foreign_word(sql: str, line: int | None) -> Correctable | None:
    """The error for a statement that can't be read, if it has a word of another dialect."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    except SqlglotError:
        return None
    words = [token.text.upper() for token in tokens]
    for k, word in enumerate(words):
        if word == "STRAIGHT_JOIN":
            is_hint = words[k - 1] == "SELECT"
            return foreign_word(word, line, [(*_span(tokens[k], sql, with_space=is_hint), "" if is_hint else "JOIN")])
        if word in _HINTS and words[k + 1 : k + 2] == ["JOIN"]:
            return foreign_word(f"{word} JOIN", line, [(*_span(tokens[k], sql, with_space=True), "")])
    return None if words[:1] != ["FROM"] else _with_select_first(sql, tokens, line)


def check_select_first(sql: str, line_at: PlaceAt) -> None:
    """Raise `Correctable` if FROM begins the statement."""
    tokens = sqlglot.tokenize(sql, dialect=DIALECT) if sql.lstrip()[:4].upper() == "FROM" else []
    if tokens and tokens[0].token_type is TokenType.FROM:
        raise _with_select_first(sql, tokens, line_at(0))


def _with_select_first(sql: str, tokens: Sequence[Token], line: int | None) -> Correctable:
    """The error for FROM before SELECT, with its correction."""
    texts = [token.text.upper() for token in tokens]
    begin = next(
        (k for k in range(len(texts)) if texts[k] == "SELECT" and texts[:k].count("(") == texts[:k].count(")")), None
    )
    edits: list[Edit] = [(0, 0, "SELECT * ")]
    if begin is not None:
        ends = ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW", "EMIT", "ORDER BY", "LIMIT", ";")
        stop = next((k for k in range(begin, len(texts)) if texts[k] in ends), len(texts))
        span = tokens[begin].start, tokens[stop - 1].end + 1
        edits = [(0, 0, f"{sql[slice(*span)]} "), (tokens[begin - 1].end + 1, span[1], "")]
    return Correctable("FROM stands before SELECT: expected SELECT first", line, edits)


def check_foreign_words(sql: str, line_at: PlaceAt) -> None:
    """QueryError if a word has another meaning here than in another dialect, or is a command around a SELECT."""
    try:
        tokens = [each for each in sqlglot.tokenize(sql, dialect=DIALECT) if each.token_type is not TokenType.SEMICOLON]
    except SqlglotError:
        return
    words = [token.text.upper() for token in tokens]
    _check_command_around(sql, tokens, line_at)
    for k, word in enumerate(words):
        line, following = line_at(tokens[k].start), words[k + 1 : k + 4]
        if word == "EXCEPT" and words[k - 1] == "*" and following[:1] == ["("] and following[1] not in ("SELECT", "("):
            message = "* EXCEPT is a word of another dialect: expected * EXCLUDE"
            raise Correctable(message, line, [(*_span(tokens[k], sql, with_space=False), "EXCLUDE")])
        if word == "ROWNUM" and following[:1] == ["<="] and following[1].isdigit():
            raise _without_rownum(tokens, words, k, line)
        if (window := _foreign_window(word, following)) is not None:
            raise QueryError(window, line)
        if word == "STRATEGY" and following and "ASOF" in words[:k]:
            raise QueryError(
                "STRATEGY is a word of Polars: expected MATCH_CONDITION (l.at >= r.at) for backward, (l.at <= r.at) "
                "for forward, and (ABS(l.at - r.at)) with TOLERANCE INTERVAL '5 s' for nearest",
                line,
            )
        if word == "ASOF" and "RIGHT" in (words[k - 1], *following[:1]):
            raise QueryError(
                "ASOF RIGHT JOIN isn't supported: expected ASOF JOIN, which gives each left row its nearest right row, "
                "or exchanged sides, FROM b ASOF LEFT JOIN a, which gives each row of b its nearest row of a",
                line,
            )


def _foreign_window(word: str, following: Sequence[str]) -> str | None:
    """Why a window of another engine can't be read here, and what is written in its place; None if this is none."""
    then = following[0] if following else ""
    if word == "WITHIN" and (then == "(" or then.isdigit()):
        return (
            "WITHIN is a word of ksqlDB: expected bounds of event times in ON, such as "
            "r.at BETWEEN l.at - INTERVAL '10 s' AND l.at + INTERVAL '10 s'"
        )
    if (word in _WINDOW_FUNCTIONS and then == "(") or (word == "WINDOW" and then in _WINDOW_KINDS):
        return (
            f"{then if word == 'WINDOW' else word} is a window of another engine: expected at the end "
            "WINDOW AS (SLIDE INTERVAL '1 min' ON '5 min'), for each row to meet the rows of the last 5 minutes"
        )
    return None


def _check_command_around(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> None:
    """Raise `Correctable` if a SELECT is a part of a command."""
    words = [token.text.upper() for token in tokens]
    line = line_at(0)
    if explain := _EXPLAIN.match(sql):
        message = "EXPLAIN stands before a SELECT: expected the SELECT alone; the option --explain shows the plan"
        raise Correctable(message, line, [(0, explain.end(), "")])
    if words[:1] in (["DESCRIBE"], ["SUMMARIZE"]) and words[1:2] in (["SELECT"], ["WITH"], ["FROM"]):
        edits = [(0, 0, "SELECT * FROM ("), (tokens[-1].end + 1, tokens[-1].end + 1, ")")]
        raise Correctable(f"{words[0]} can't begin a statement: expected it in parentheses after FROM", line, edits)
    begin = next((k for k, word in enumerate(words) if word in ("SELECT", "WITH")), 0)
    if begin and words[0] in ("COPY", "CREATE", "INSERT"):
        end = _last_word_of_select(words, begin)
        edits = [(0, tokens[begin].start, ""), (tokens[end].end + 1, tokens[-1].end + 1, "")]
        message = f"{words[0]} stands around a SELECT: expected the SELECT alone; the option -o FILE writes its rows"
        raise Correctable(message, line, edits)


def _last_word_of_select(words: Sequence[str], begin: int) -> int:
    """The number of the last word of a SELECT, which may be in parentheses; begin: the number of its first word."""
    depth = 0
    for k in range(begin, len(words)):
        depth += (words[k] == "(") - (words[k] == ")")
        if depth < 0:
            return k - 1
    return len(words) - 1


def _without_rownum(tokens: Sequence[Token], words: Sequence[str], k: int, line: int) -> Correctable:
    """The error for a condition on ROWNUM, corrected to LIMIT; k: the number of this word."""
    is_before_others = words[k - 1] == "WHERE" and words[k + 3 : k + 4] == ["AND"]
    begin = tokens[k].start if is_before_others else tokens[k - 2].end + 1
    stop = tokens[k + 4].start if is_before_others else tokens[k + 2].end + 1
    # LIMIT comes before the clauses that only spojoin has
    clauses = [n for n in range(1, len(words)) if words[n : n + 2] in (["EMIT", "ON"], ["WINDOW", "AS"])]
    end = tokens[clauses[0] - 1 if clauses else -1].end + 1
    return foreign_word("ROWNUM", line, [(begin, stop, ""), (end, end, f" LIMIT {words[k + 2]}")])


def check_quoted_paths(sql: str, line_at: PlaceAt) -> None:
    """Raise `Correctable` if a file's name after FROM or JOIN has no quotes."""
    try:
        tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    except SqlglotError:
        return
    for k in range(1, len(tokens)):
        if tokens[k - 1].token_type in (TokenType.FROM, TokenType.JOIN) and tokens[k].token_type is TokenType.VAR:
            parts = [tokens[k], *_parts_after(tokens[k + 1 :])]
            path, end = ".".join(part.text for part in parts), parts[-1].end + 1
            if any(part.text.lower() in _ENDINGS for part in parts[1:]):
                message = f"'{path}' is a path without quotes: expected FROM '{path}'"
                raise Correctable(message, line_at(parts[0].start), [(parts[0].start, end, f"'{path}'")])


def _parts_after(tokens: Sequence[Token]) -> list[Token]:
    """The further parts of a name, each after a dot."""
    if len(tokens) < 2 or tokens[0].token_type is not TokenType.DOT or tokens[1].token_type is not TokenType.VAR:
        return []
    return [tokens[1], *_parts_after(tokens[2:])]


def foreign_word(word: str, line: int | None, edits: Sequence[Edit]) -> Correctable:
    """The error for a word of another dialect; edits: those that replace it by DuckDB's words."""
    return Correctable(f"{word} is a word of another dialect: expected the same in DuckDB's SQL", line, edits)


def _span(token: Token, sql: str, *, with_space: bool) -> tuple[int, int]:
    """The range of characters of a word; with_space: whether to include the space after it."""
    rest = sql[token.end + 1 :]
    return token.start, token.end + 1 + (len(rest) - len(rest.lstrip()) if with_space else 0)
