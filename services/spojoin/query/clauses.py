"""Parses and splits off, by their tokens, the clauses that sqlglot doesn't read in DuckDB's dialect.

These are WINDOW AS (SLIDE INTERVAL '10K' ON '100K'), EMIT ON ..., TABLE(name), and for ASOF joins Snowflake's
MATCH_CONDITION (l.at >= r.at) and QuestDB's TOLERANCE 5s. Spaces replace a clause, so that all other characters keep
their places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError, TokenError

from spojoin.errors import QueryError
from spojoin.model import EmitOn
from spojoin.query.durations import DURATION_EXPECTED, parse_count, parse_duration_us
from spojoin.query.nodes import DIALECT
from spojoin.query.places import Correctable, PlaceAt
from spojoin.windows import RowWindow, TimeWindow, Window

WINDOW_EXPECTED = "WINDOW AS (SLIDE INTERVAL '10K' ON '100K')"
_EMIT_EXPECTED = "EMIT ON ARRIVAL or EMIT ON CLOSE"
_TABLE_EXPECTED = "FROM orders AS l JOIN TABLE(tiers) AS r, or a file in quotes"
_MATCH_EXPECTED = "MATCH_CONDITION (l.at >= r.at)"


def _blanked(sql: str, start: int, end: int) -> str:
    """The SQL with spaces instead of the characters from `start` to `end`; line breaks stay."""
    return sql[:start] + "".join(c if c in "\r\n" else " " for c in sql[start:end]) + sql[end:]


def _tokens(sql: str, line_at: PlaceAt) -> list[Token]:
    try:
        return sqlglot.tokenize(sql, dialect=DIALECT)
    except TokenError as error:
        raise QueryError(f"sql: {error}: expected closed quotes and comments", line_at(0)) from error


# -- WINDOW

_WINDOW_SHAPE = ("AS", "(", "SLIDE", "INTERVAL", "'", "ON", "'", ")")
_AFTER_WINDOW = (TokenType.SEMICOLON, TokenType.ON, TokenType.WHERE)
_CLAUSES_AFTER_WINDOW = ("GROUP BY", "HAVING", "QUALIFY", "EMIT")


def split_window(sql: str, line_at: PlaceAt) -> tuple[str, Window | None]:
    """The SQL without its window clause, and the window; None if it has no such clause. Raises QueryError.

    line_at: gives the place of a character of `sql`, counted from 0
    """
    tokens = _tokens(sql, line_at)
    starts = [
        k
        for k, token in enumerate(tokens)
        if token.token_type is TokenType.WINDOW and tokens[k - 1].token_type is not TokenType.DOT
    ]
    if not starts:
        return sql, None
    if len(starts) > 1:
        raise QueryError("WINDOW is written twice: expected it once", line_at(tokens[starts[1]].start))
    begin = starts[0] + 1
    clause, rest = tokens[begin : begin + len(_WINDOW_SHAPE)], tokens[begin + len(_WINDOW_SHAPE) :]
    for expected, token in zip(_WINDOW_SHAPE, clause, strict=False):
        fits = token.token_type is TokenType.STRING if expected == "'" else token.text.upper() == expected
        if not fits:
            raise _other_window(sql, tokens, begin, token, line_at)
    if len(clause) < len(_WINDOW_SHAPE):
        raise QueryError(f"window: the clause is incomplete, expected {WINDOW_EXPECTED}", line_at(tokens[-1].start))
    # without this check, the text after the window would be read as a part of the condition before it
    if rest and rest[0].token_type not in _AFTER_WINDOW and rest[0].text.upper() not in _CLAUSES_AFTER_WINDOW:
        message = f"window: '{rest[0].text}' follows, expected the end, another clause or a semicolon"
        raise QueryError(message, line_at(rest[0].start))
    start = tokens[starts[0]].start
    return _blanked(sql, start, clause[-1].end + 1), _window(clause[4].text, clause[6].text, line_at(start))


def _other_window(sql: str, tokens: Sequence[Token], begin: int, found: Token, line_at: PlaceAt) -> QueryError:
    """The error for a clause in other words, corrected to a window of the one or two sizes that it gives.

    begin: the first token of the clause; found: the first one that doesn't fit
    """
    line = line_at(found.start)
    message = f"window: found '{found.text}', expected "
    opening = next((k for k in range(begin, len(tokens)) if tokens[k].token_type is TokenType.L_PAREN), len(tokens))
    closing = _closing_parenthesis(tokens, opening)
    if closing is None or any(token.text.upper() == "FOLLOWING" for token in tokens[opening:closing]):
        return QueryError(message + WINDOW_EXPECTED, line)
    sizes = [_size_given(match) for match in _DISTANCE.finditer(sql, tokens[opening].end + 1, tokens[closing].start)]
    if len(sizes) == 1:  # each row has a window of its own
        sizes = ["1" if parse_duration_us(sizes[0]) is None else "1 ms", *sizes]
    try:
        slide, length = sorted(sizes, key=lambda size: _size(size, "size", line)[0])
        _window(slide, length, line)
    except (QueryError, ValueError):
        return QueryError(message + WINDOW_EXPECTED, line)
    clause = f"AS (SLIDE INTERVAL '{slide}' ON '{length}')"
    return Correctable(f"{message}WINDOW {clause}", line, [(tokens[begin].start, tokens[closing].end + 1, clause)])


def _size_given(match: re.Match[str]) -> str:
    """A size with its unit, if a unit follows."""
    size, unit = match[1].strip("'"), match[2]
    return f"{size} {unit}" if unit is not None and parse_duration_us(f"{size} {unit}") is not None else size


def _window(slide_text: str, length_text: str, line: int) -> Window:
    slide, slide_kind = _size(slide_text, "slide", line)
    length, kind = _size(length_text, "length", line)
    if slide_kind is not kind:
        raise QueryError(
            f"window: slide '{slide_text}' and length '{length_text}' differ in kind: "
            "expected two counts ('10K', '100K') or two durations ('1 min', '5 min')",
            line,
        )
    if length > kind.LENGTH_MAX:
        raise QueryError(f"window: length '{length_text}' is too large: expected at most {kind.LENGTH_MAX_TEXT}", line)
    if slide > length or length % slide:
        raise QueryError(
            f"window: slide '{slide_text}' doesn't divide the length '{length_text}': "
            "expected a length that is a whole multiple of the slide",
            line,
        )
    return kind(length, slide)


def _size(text: str, what: str, line: int) -> tuple[int, type[RowWindow | TimeWindow]]:
    count, duration = parse_count(text), parse_duration_us(text)
    size = duration if count is None else count
    if size is None:
        raise QueryError(
            f"window: {what} '{text}' is neither a count nor a duration: expected one such as '500', '10K', '2M', "
            "'250 ms', '5 s', '1 min' or '2 hours'",
            line,
        )
    if size == 0:
        raise QueryError(f"window: {what} '{text}' is zero: expected at least 1 row or 1 microsecond", line)
    return size, TimeWindow if count is None else RowWindow


# -- EMIT


def split_emit(sql: str, line_at: PlaceAt) -> tuple[str, EmitOn | None]:
    """The SQL without its clause EMIT ON ..., and when rows are answered; None without such a clause."""
    tokens = _tokens(sql, line_at)
    begin = next((k for k in range(1, len(tokens)) if _is_emit(tokens, k)), None)
    if begin is None:
        return sql, None
    clause, rest = tokens[begin : begin + 3], tokens[begin + 3 :]
    words = [token.text.upper() for token in clause]
    if len(clause) < 3 or words[1] != "ON" or words[2].lower() not in list(EmitOn):
        written = " ".join(token.text for token in clause)
        raise QueryError(f"emit: found '{written}', expected {_EMIT_EXPECTED}", line_at(clause[0].start))
    if rest and rest[0].token_type not in (TokenType.SEMICOLON, TokenType.WINDOW):
        message = f"emit: '{rest[0].text}' follows, expected the end of the statement"
        raise QueryError(message, line_at(rest[0].start))
    return _blanked(sql, clause[0].start, clause[-1].end + 1), EmitOn(words[2].lower())


def _is_emit(tokens: Sequence[Token], k: int) -> bool:
    """Whether the clause begins at token k; after a dot, AS, SELECT or a comma, the word is a column's name."""
    is_named = tokens[k - 1].token_type in (TokenType.DOT, TokenType.ALIAS, TokenType.COMMA, TokenType.SELECT)
    return tokens[k].text.upper() == "EMIT" and tokens[k].token_type is TokenType.VAR and not is_named


def with_emit(sql: str, emit: EmitOn, line_at: PlaceAt) -> str:
    """Add EMIT ON ... to the SQL of a statement without this clause, after all other clauses."""
    last = [token for token in _tokens(sql, line_at) if token.token_type is not TokenType.SEMICOLON][-1].end + 1
    return f"{sql[:last]} EMIT ON {emit.upper()}{sql[last:]}"


# -- TABLE


def split_tables(sql: str, line_at: PlaceAt) -> tuple[str, frozenset[int]]:
    """The SQL with just the name for each TABLE(name), and the characters at which these names begin."""
    tokens = _tokens(sql, line_at)
    starts = []
    for k, token in enumerate(tokens[:-1]):
        if k > 0 and token.text.upper() == "TABLE" and tokens[k - 1].text.upper() in ("FROM", "JOIN", ","):
            following = tokens[k + 1 : k + 4]
            if [each.text for each in (*following[:1], *following[2:])] != ["(", ")"]:
                message = f"TABLE is not followed by a name in parentheses: expected {_TABLE_EXPECTED}"
                raise QueryError(message, line_at(token.start))
            opening, name, closing = following
            sql = _blanked(_blanked(sql, token.start, opening.end + 1), closing.start, closing.end + 1)
            starts.append(name.start)
    return sql, frozenset(starts)


# -- MATCH_CONDITION and TOLERANCE

_MATCH, _TOLERANCE = "MATCH_CONDITION", "TOLERANCE"
_DISTANCE = re.compile(r"\s*(?:INTERVAL\b\s*)?('[^']*'|\d+(?:\.\d+)?)(?:\s*([A-Za-z]+))?", re.IGNORECASE)
#: A word after one of these is a name and doesn't begin a clause.
_BEFORE_NAMES = frozenset(
    TokenType[name]
    for name in [
        "DOT",
        "ALIAS",
        "COMMA",
        "SELECT",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "ON",
        "L_PAREN",
        "BETWEEN",
        "HAVING",
        "GROUP_BY",
        "ORDER_BY",
        "PARTITION_BY",
        "LT",
        "LTE",
        "GT",
        "GTE",
        "EQ",
        "NEQ",
        "PLUS",
        "DASH",
        "STAR",
        "SLASH",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "IN",
    ]
)


@dataclass(frozen=True, slots=True)
class AsofClauses:
    """The clauses of an ASOF join. match: the condition that defines the nearest row; tolerance: its largest distance.

    text: the statement as written; match_start: the character at which MATCH_CONDITION may be inserted
    """

    text: str
    match_start: int
    match: exp.Expression | None = None
    tolerance: exp.Expression | None = None

    def matched_by(self, condition: str) -> str:
        """The statement with a MATCH_CONDITION that defines the nearest row."""
        return f"{self.text[: self.match_start]}{_MATCH} ({condition}) {self.text[self.match_start :]}"


def split_asof(sql: str, text: str, line_at: PlaceAt) -> tuple[str, AsofClauses | None]:
    """The SQL of an ASOF join in a form that sqlglot reads, and its clauses; None for other joins.

    All characters keep their places. text: the statement as written
    """
    tokens = _tokens(sql, line_at)
    begin = next((k for k in range(len(tokens)) if _is_asof_join(tokens, k)), None)
    if begin is None:
        return sql, None

    # LEFT ASOF JOIN as ASOF LEFT JOIN
    before = [token.text.upper() for token in tokens[max(begin - 2, 0) : begin]]
    words = 1 if before[-1:] == ["LEFT"] else 2 if before == ["LEFT", "OUTER"] else 0
    if words:
        start, end = tokens[begin - words].start, tokens[begin].end + 1
        sql = sql[:start] + "ASOF LEFT".ljust(end - start) + sql[end:]

    following = tokens[begin:]
    sql, match = _split_match(sql, following, line_at)
    sql, tolerance = _split_tolerance(sql, following, line_at)
    conditions = (token.start for token in following if token.token_type in (TokenType.ON, TokenType.USING))
    return sql, AsofClauses(text, next(conditions, len(text)), match, tolerance)


def _is_asof_join(tokens: Sequence[Token], k: int) -> bool:
    following = [token.text.upper() for token in tokens[k + 1 : k + 4]]
    return tokens[k].token_type is TokenType.ASOF and "JOIN" in following


def _split_match(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> tuple[str, exp.Expression | None]:
    k = _clause_start(tokens, _MATCH)
    if k is None:
        return sql, None
    last = _closing_parenthesis(tokens, k + 1)
    line = line_at(tokens[k].start)
    if last is None:
        message = f"{_MATCH} is not followed by a condition in parentheses: expected {_MATCH_EXPECTED}"
        raise QueryError(message, line)
    inner = sql[tokens[k + 1].end + 1 : tokens[last].start]
    try:
        match: Any = sqlglot.parse_one(" " * (tokens[k + 1].end + 1) + inner, dialect=DIALECT)
    except SqlglotError as error:
        raise QueryError(f"'{inner}' can't be read: expected {_MATCH_EXPECTED}", line) from error
    start, end = tokens[k].start, tokens[last].end + 1
    without = _blanked(sql, start, end)
    if not any(token.token_type in (TokenType.ON, TokenType.USING) for token in tokens):
        without = sql[:start] + "ON true" + without[start + len("ON true") :]
    return without, match


def _split_tolerance(sql: str, tokens: Sequence[Token], line_at: PlaceAt) -> tuple[str, exp.Expression | None]:
    k = _clause_start(tokens, _TOLERANCE)
    if k is None:
        return sql, None
    given = _DISTANCE.match(sql, tokens[k].end + 1)
    distance, duration = ("", "") if given is None else (given[1].strip("'"), _size_given(given))
    has_unit = duration != distance
    is_number = given is not None and not has_unit and not given[0].lstrip().upper().startswith(("INTERVAL", "'"))
    if given is None or not (is_number or parse_duration_us(duration) is not None):
        message = f"{_TOLERANCE} is not followed by a distance: expected {DURATION_EXPECTED}, or a number"
        raise QueryError(message, line_at(tokens[k].start))
    end = given.end(2) if has_unit else given.end(1)
    tolerance = exp.Literal.number(distance) if is_number else exp.Interval(this=exp.Literal.string(duration))
    return _blanked(sql, tokens[k].start, end), tolerance


def _clause_start(tokens: Sequence[Token], word: str) -> int | None:
    """The token at which the clause of this word begins; after some tokens, the word is a column's name."""
    starts = (k for k in range(1, len(tokens)) if tokens[k].text.upper() == word)
    return next((k for k in starts if tokens[k - 1].token_type not in _BEFORE_NAMES), None)


def _closing_parenthesis(tokens: Sequence[Token], opening: int) -> int | None:
    """The index of the parenthesis that closes the one at `opening`."""
    depth = 0
    for k in range(opening, len(tokens)):
        depth += (tokens[k].token_type is TokenType.L_PAREN) - (tokens[k].token_type is TokenType.R_PAREN)
        if depth == 0:
            return k if k > opening else None
    return None
