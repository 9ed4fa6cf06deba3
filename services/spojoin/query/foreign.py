"""Words of other dialects that DuckDB hasn't got, and the edits that say the same here."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from spojoin.query.mended import Edit, Mended
from spojoin.query.places import PlaceAt

#: Before JOIN, these say how to join, not what: other engines' hints.
_HINTS = ("STRAIGHT", "LOOKUP", "HASH", "MERGE", "LOOP", "BROADCAST", "REMOTE", "GLOBAL", "ANY", "ALL")

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
            return _mended(word, line, [(*_place(tokens[k], sql, after=is_hint), "" if is_hint else "JOIN")])
        if word in _HINTS and words[k + 1 : k + 2] == ["JOIN"]:
            return _mended(f"{word} JOIN", line, [(*_place(tokens[k], sql, after=True), "")])
        if word == "TOP" and words[k - 1] == "SELECT" and words[k + 1].isdigit():
            last = [token for token in tokens if token.text != ";"][-1].end + 1
            _, stop = _place(tokens[k + 1], sql, after=True)
            return _mended("TOP", line, [(tokens[k].start, stop, ""), (last, last, f" LIMIT {words[k + 1]}")])
    return None


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


def _mended(word: str, line: int | None, edits: list[Edit]) -> Mended:
    return Mended(f"{word} is a word of another dialect: expected SQL of DuckDB without it", line, edits)


def _place(token: Token, sql: str, *, after: bool) -> tuple[int, int]:
    """Where a word stands; after: with the space behind it."""
    rest = sql[token.end + 1 :]
    return token.start, token.end + 1 + (len(rest) - len(rest.lstrip()) if after else 0)
