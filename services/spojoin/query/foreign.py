"""Words of other dialects that DuckDB hasn't got, and the edits that say the same here."""

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from spojoin.errors import QueryError
from spojoin.query.mended import Edit, Mended
from spojoin.query.places import PlaceAt

#: Before JOIN, these say how to join, not what: other engines' hints.
_HINTS = ("STRAIGHT", "LOOKUP", "HASH", "MERGE", "LOOP", "BROADCAST", "REMOTE", "GLOBAL", "ANY", "ALL")

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(?=SELECT|WITH|FROM|\()", re.IGNORECASE)

#: How the names of files end.
_ENDINGS = ("csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "arrow", "feather", "ipc")


def foreign_words(sql: str, line: int | None) -> Mended | None:
    """What is wrong with a statement that can't be read, where that is a word of another dialect."""
    try:
        tokens = sqlglot.tokenize(sql, dialect="duckdb")
    except SqlglotError:
        return None
    words = [token.text.upper() for token in tokens]
    for k, word in enumerate(words):
        if word == "STRAIGHT_JOIN":
            is_hint = words[k - 1] == "SELECT"
            return of_another(word, line, [(*_place(tokens[k], sql, after=is_hint), "" if is_hint else "JOIN")])
        if word in _HINTS and words[k + 1 : k + 2] == ["JOIN"]:
            return of_another(f"{word} JOIN", line, [(*_place(tokens[k], sql, after=True), "")])
    return None if words[:1] != ["FROM"] else _from_first(sql, tokens, line)


def check_from(sql: str, line_at: PlaceAt) -> None:
    """Raises `Mended` where FROM begins a statement of streams."""
    tokens = sqlglot.tokenize(sql, dialect="duckdb") if sql.lstrip()[:4].upper() == "FROM" else []
    if tokens and tokens[0].token_type is TokenType.FROM:
        raise _from_first(sql, tokens, line_at(0))


def _from_first(sql: str, tokens: Sequence[Token], line: int | None) -> Mended:
    """The statement with SELECT before FROM."""
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
    return Mended("FROM stands before SELECT: expected SELECT first", line, edits)


def check_words(sql: str, line_at: PlaceAt) -> None:
    """Raises `Mended`, or QueryError, where a word of another dialect, or around a SELECT, has another meaning here."""
    try:
        tokens = [
            each for each in sqlglot.tokenize(sql, dialect="duckdb") if each.token_type is not TokenType.SEMICOLON
        ]
    except SqlglotError:
        return
    words = [token.text.upper() for token in tokens]
    _check_around(sql, tokens, line_at)
    for k, word in enumerate(words):
        line, following = line_at(tokens[k].start), words[k + 1 : k + 4]
        if word == "EXCEPT" and words[k - 1] == "*" and following[:1] == ["("] and following[1] not in ("SELECT", "("):
            message = "* EXCEPT is a word of another dialect: expected * EXCLUDE"
            raise Mended(message, line, [(*_place(tokens[k], sql, after=False), "EXCLUDE")])
        if word == "ROWNUM" and following[:1] == ["<="] and following[1].isdigit():
            raise _without_rownum(tokens, words, k, line)
        if word == "STRATEGY" and following and "ASOF" in words[:k]:
            raise QueryError(
                "STRATEGY is a word of Polars: expected MATCH_CONDITION (l.at >= r.at) for backward, (l.at <= r.at) "
                "for forward, and (ABS(l.at - r.at)) with TOLERANCE INTERVAL '5 s' for nearest",
                line,
            )
        if word == "ASOF" and "RIGHT" in (words[k - 1], *following[:1]):
            raise QueryError(
                "ASOF RIGHT JOIN isn't supported: expected ASOF JOIN, which gives each left row its nearest right one, "
                "or the sides turned, FROM b ASOF LEFT JOIN a, which gives each row of b its nearest one of a",
                line,
            )


def _check_around(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> None:
    """Raises `Mended` where a SELECT is a part of a command."""
    words = [token.text.upper() for token in tokens]
    line = line_at(0)
    if explain := _EXPLAIN.match(sql):
        message = "EXPLAIN stands before a SELECT: expected the SELECT alone; --explain shows how it is evaluated"
        raise Mended(message, line, [(0, explain.end(), "")])
    if words[:1] in (["DESCRIBE"], ["SUMMARIZE"]) and words[1:2] in (["SELECT"], ["WITH"], ["FROM"]):
        edits = [(0, 0, "SELECT * FROM ("), (tokens[-1].end + 1, tokens[-1].end + 1, ")")]
        raise Mended(f"{words[0]} begins no statement here: expected it in parentheses, behind FROM", line, edits)
    begin = next((k for k, word in enumerate(words) if word in ("SELECT", "WITH")), 0)
    if begin and words[0] in ("COPY", "CREATE", "INSERT"):
        end = _closing_of(words, begin)
        edits = [(0, tokens[begin].start, ""), (tokens[end].end + 1, tokens[-1].end + 1, "")]
        message = f"{words[0]} stands around a SELECT: expected the SELECT alone; -o FILE takes its rows"
        raise Mended(message, line, edits)


def _closing_of(words: Sequence[str], begin: int) -> int:
    """The last word of a SELECT that begins at a word, up to a parenthesis that closes around it."""
    depth = 0
    for k in range(begin, len(words)):
        depth += (words[k] == "(") - (words[k] == ")")
        if depth < 0:
            return k - 1
    return len(words) - 1


def _limited(word: str, line: int, tokens: Sequence[Token], cut: tuple[int, int], count: str) -> Mended:
    """The statement without a part, and with LIMIT before the clauses that DuckDB hasn't got."""
    texts = [token.text.upper() for token in tokens]
    starts = [k for k in range(1, len(texts)) if texts[k : k + 2] in (["EMIT", "ON"], ["WINDOW", "AS"])]
    end = tokens[starts[0] - 1 if starts else -1].end + 1
    return of_another(word, line, [(*cut, ""), (end, end, f" LIMIT {count}")])


def _without_rownum(tokens: Sequence[Token], words: Sequence[str], k: int, line: int) -> Mended:
    """The statement with LIMIT for a condition on ROWNUM, which stands alone or beside others."""
    is_before_others = words[k - 1] == "WHERE" and words[k + 3 : k + 4] == ["AND"]
    begin = tokens[k].start if is_before_others else tokens[k - 2].end + 1
    stop = tokens[k + 4].start if is_before_others else tokens[k + 2].end + 1
    return _limited("ROWNUM", line, tokens, (begin, stop), words[k + 2])


def check_paths(sql: str, line_at: PlaceAt) -> None:
    """Raises `Mended` where FROM or JOIN is followed by a file's name that stands in no quotes."""
    try:
        tokens = sqlglot.tokenize(sql, dialect="duckdb")
    except SqlglotError:
        return
    for k in range(1, len(tokens)):
        if tokens[k - 1].token_type in (TokenType.FROM, TokenType.JOIN) and tokens[k].token_type is TokenType.VAR:
            parts = [tokens[k], *_parts_after(tokens[k + 1 :])]
            path, end = ".".join(part.text for part in parts), parts[-1].end + 1
            if any(part.text.lower() in _ENDINGS for part in parts[1:]):
                message = f"'{path}' is a path without quotes: expected FROM '{path}'"
                raise Mended(message, line_at(parts[0].start), [(parts[0].start, end, f"'{path}'")])


def _parts_after(tokens: Sequence[Token]) -> list[Token]:
    """The further parts of a name, each behind a dot."""
    if len(tokens) < 2 or tokens[0].token_type is not TokenType.DOT or tokens[1].token_type is not TokenType.VAR:
        return []
    return [tokens[1], *_parts_after(tokens[2:])]


def of_another(word: str, line: int | None, edits: Sequence[Edit]) -> Mended:
    """The mistake that a word of another dialect is, and what says the same."""
    return Mended(f"{word} is a word of another dialect: expected SQL of DuckDB without it", line, edits)


def _place(token: Token, sql: str, *, after: bool) -> tuple[int, int]:
    """Where a word stands; after: with the space behind it."""
    rest = sql[token.end + 1 :]
    return token.start, token.end + 1 + (len(rest) - len(rest.lstrip()) if after else 0)
