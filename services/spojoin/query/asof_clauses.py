"""The clauses of an ASOF join that sqlglot doesn't read in DuckDB's dialect, split off by their tokens.

MATCH_CONDITION (l.at >= r.at), Snowflake's, says which row is nearest; TOLERANCE 5s, QuestDB's, how far it may be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from spojoin.errors import QueryError
from spojoin.query.places import PlaceAt
from spojoin.query.units import DURATION_EXPECTED, parse_duration_us

_DIALECT = "duckdb"
_MATCH, _TOLERANCE = "MATCH_CONDITION", "TOLERANCE"
_MATCH_EXPECTED = "MATCH_CONDITION (l.at >= r.at)"
_DISTANCE = re.compile(r"\s*(?:INTERVAL\b\s*)?('[^']*'|\d+(?:\.\d+)?)(?:\s*([A-Za-z]+))?", re.IGNORECASE)


#: What a name follows, and no clause.
_BEFORE_NAMES = frozenset(
    {
        TokenType.DOT,
        TokenType.ALIAS,
        TokenType.COMMA,
        TokenType.SELECT,
        TokenType.WHERE,
        TokenType.AND,
        TokenType.OR,
        TokenType.NOT,
        TokenType.ON,
        TokenType.L_PAREN,
        TokenType.BETWEEN,
        TokenType.HAVING,
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.PARTITION_BY,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GT,
        TokenType.GTE,
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.PLUS,
        TokenType.DASH,
        TokenType.STAR,
        TokenType.SLASH,
        TokenType.CASE,
        TokenType.WHEN,
        TokenType.THEN,
        TokenType.ELSE,
        TokenType.IN,
    }
)


@dataclass(frozen=True, slots=True)
class AsofClauses:
    """What the clauses of an ASOF join say. match: which row is nearest; tolerance: how far it may be.

    text: the statement as written; place: where in it MATCH_CONDITION may stand
    """

    text: str
    place: int
    match: exp.Expression | None = None
    tolerance: exp.Expression | None = None

    def matched_by(self, condition: str) -> str:
        """The statement with a condition that says which row is nearest."""
        return f"{self.text[: self.place]}{_MATCH} ({condition}) {self.text[self.place :]}"


def split_asof(sql: str, text: str, line_at: PlaceAt) -> tuple[str, AsofClauses | None]:
    """The SQL of an ASOF join as sqlglot reads it, character for character, and its clauses; None of other joins.

    text: the statement as written, with the same places
    """
    tokens = sqlglot.tokenize(sql, dialect=_DIALECT)
    begin = next((k for k in range(len(tokens)) if _is_asof(tokens, k)), None)
    if begin is None:
        return sql, None
    sql = _left_behind(sql, tokens, begin)
    behind = tokens[begin:]
    sql, match = _without_match(sql, behind, line_at)
    sql, tolerance = _without_tolerance(sql, behind, line_at)
    place = next((token.start for token in behind if token.token_type in (TokenType.ON, TokenType.USING)), len(text))
    return sql, AsofClauses(text, place, match, tolerance)


def _is_asof(tokens: Sequence[Token], k: int) -> bool:
    following = [token.text.upper() for token in tokens[k + 1 : k + 4]]
    return tokens[k].token_type is TokenType.ASOF and "JOIN" in following


def _left_behind(sql: str, tokens: Sequence[Token], k: int) -> str:
    """LEFT ASOF JOIN as ASOF LEFT JOIN."""
    before = [token.text.upper() for token in tokens[max(k - 2, 0) : k]]
    words = 1 if before[-1:] == ["LEFT"] else 2 if before == ["LEFT", "OUTER"] else 0
    if not words:
        return sql
    start, end = tokens[k - words].start, tokens[k].end + 1
    return sql[:start] + "ASOF LEFT".ljust(end - start) + sql[end:]


def _without_match(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> tuple[str, exp.Expression | None]:
    k = _first(tokens, _MATCH)
    if k is None:
        return sql, None
    last = _closing(tokens, k + 1)
    if last is None:
        raise QueryError(f"{_MATCH} is followed by no condition in parentheses: expected {_MATCH_EXPECTED}",
                         line_at(tokens[k].start))  # fmt: skip
    inner = sql[tokens[k + 1].end + 1 : tokens[last].start]
    try:
        found: Any = sqlglot.parse_one(" " * (tokens[k + 1].end + 1) + inner, dialect=_DIALECT)
    except SqlglotError as error:
        raise QueryError(f"'{inner}' can't be read: expected {_MATCH_EXPECTED}", line_at(tokens[k].start)) from error
    if any(token.token_type in (TokenType.ON, TokenType.USING) for token in tokens):
        return _blanked(sql, tokens[k].start, tokens[last].end), found
    start, end = tokens[k].start, tokens[last].end + 1
    return sql[:start] + "ON true" + _blanked(sql, start, end - 1)[start + len("ON true") :], found


def _without_tolerance(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> tuple[str, exp.Expression | None]:
    k = _first(tokens, _TOLERANCE)
    if k is None:
        return sql, None
    said = _DISTANCE.match(sql, tokens[k].end + 1)
    distance, word = ("", None) if said is None else (said[1].strip("'"), said[2])
    has_unit = word is not None and parse_duration_us(f"{distance} {word}") is not None
    duration = f"{distance} {word}" if has_unit else distance
    is_number = said is not None and not has_unit and not said[0].lstrip().upper().startswith(("INTERVAL", "'"))
    if said is None or not (is_number or parse_duration_us(duration) is not None):
        raise QueryError(
            f"{_TOLERANCE} is followed by no distance: expected {DURATION_EXPECTED}, or a number",
            line_at(tokens[k].start),
        )
    end = said.end(2) if has_unit else said.end(1)
    found = exp.Literal.number(distance) if is_number else exp.Interval(this=exp.Literal.string(duration))
    return _blanked(sql, tokens[k].start, end - 1), found


def _first(tokens: Sequence[Token], word: str) -> int | None:
    """The clause that begins with a word, which is a column's name behind what a name follows."""
    found = (k for k in range(1, len(tokens)) if tokens[k].text.upper() == word)
    return next((k for k in found if tokens[k - 1].token_type not in _BEFORE_NAMES), None)


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The parenthesis that closes the one at `opening`."""
    depth = 0
    for k in range(opening, len(tokens)):
        depth += (tokens[k].token_type is TokenType.L_PAREN) - (tokens[k].token_type is TokenType.R_PAREN)
        if depth == 0:
            return k if k > opening else None
    return None


def _blanked(sql: str, start: int, last: int) -> str:
    return sql[:start] + "".join(c if c in "\r\n" else " " for c in sql[start : last + 1]) + sql[last + 1 :]
