"""The clause WINDOW AS (SLIDE INTERVAL '10K' ON '100K'), which isn't standard SQL, split off and parsed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from spojoin.errors import QueryError
from spojoin.model import EmitOn, Window
from spojoin.query.places import PlaceAt
from spojoin.query.units import parse_count, parse_duration_us

CLAUSE_EXPECTED = "WINDOW AS (SLIDE INTERVAL '10K' ON '100K')"
LENGTH_TUPLES_MAX = 1_000_000_000  # at least 16 bytes a tuple: more would exceed one machine's memory
LENGTH_US_MAX = 3_653 * 86_400_000_000  # ten years, so that bounds stay far from int64's ends

EMIT_EXPECTED = "EMIT ON ARRIVAL or EMIT ON CLOSE"

_FOLLOWING = (TokenType.SEMICOLON, TokenType.ON, TokenType.WHERE)
_CLAUSES_AFTER = ("GROUP BY", "HAVING", "QUALIFY", "EMIT")
_SHAPE = ("AS", "(", "SLIDE", "INTERVAL", "'", "ON", "'", ")")


def split_window(sql: str, line_at: PlaceAt) -> tuple[str, Window | None]:
    """The SQL with its window clause blanked out, line for line, and the window; None where there is no clause.

    `line_at` gives the place of a character of `sql`, counted from 0.
    """
    tokens = _tokens(sql, line_at)
    begin = _clause_start(tokens, line_at)
    if begin is None:
        return sql, None
    clause = tokens[begin + 1 : begin + 1 + len(_SHAPE)]
    for expected, token in zip(_SHAPE, clause, strict=False):
        if not _fits(expected, token):
            raise QueryError(f"window: found '{token.text}', expected {CLAUSE_EXPECTED}", line_at(token.start))
    if len(clause) < len(_SHAPE):
        raise QueryError(f"window: the clause is incomplete, expected {CLAUSE_EXPECTED}", line_at(tokens[-1].start))
    _check_next(tokens[begin + 1 + len(_SHAPE) :], line_at)
    window = _window(clause[4].text, clause[6].text, line_at(tokens[begin].start))
    return _blanked(sql, tokens[begin].start, clause[-1].end + 1), window


def split_emit(sql: str, line_at: PlaceAt) -> tuple[str, EmitOn | None]:
    """The SQL with its clause EMIT ON ... blanked out, and when rows answer; None where there is no clause."""
    tokens = _tokens(sql, line_at)
    starts = [k for k in range(1, len(tokens)) if _is_emit(tokens, k)]
    if not starts:
        return sql, None
    clause, rest = tokens[starts[0] : starts[0] + 3], tokens[starts[0] + 3 :]
    words = [token.text.upper() for token in clause]
    if len(clause) < 3 or words[1] != "ON" or words[2].lower() not in list(EmitOn):
        found = " ".join(token.text for token in clause)
        raise QueryError(f"emit: found '{found}', expected {EMIT_EXPECTED}", line_at(clause[0].start))
    if rest and rest[0].token_type is not TokenType.SEMICOLON and rest[0].token_type is not TokenType.WINDOW:
        raise QueryError(f"emit: '{rest[0].text}' follows, expected the statement's end", line_at(rest[0].start))
    return _blanked(sql, clause[0].start, clause[-1].end + 1), EmitOn(words[2].lower())


def with_emit(sql: str, emit: EmitOn, line_at: PlaceAt) -> str:
    """The SQL of a statement without the clause, with EMIT ON ... behind all others."""
    last = [token for token in _tokens(sql, line_at) if token.token_type is not TokenType.SEMICOLON][-1].end + 1
    return f"{sql[:last]} EMIT ON {emit.upper()}{sql[last:]}"


def _is_emit(tokens: Sequence[Token], k: int) -> bool:
    """Whether the clause begins at token k: a column of that name stands behind a dot, AS or a comma."""
    is_named = tokens[k - 1].token_type in (TokenType.DOT, TokenType.ALIAS, TokenType.COMMA, TokenType.SELECT)
    return tokens[k].text.upper() == "EMIT" and tokens[k].token_type is TokenType.VAR and not is_named


def _check_next(rest: Sequence[Token], line_at: Callable[[int], int]) -> None:
    """Else what follows would be read as a part of the condition before the window."""
    if rest and rest[0].token_type not in _FOLLOWING and rest[0].text.upper() not in _CLAUSES_AFTER:
        raise QueryError(
            f"window: '{rest[0].text}' follows, expected nothing, another clause or a semicolon", line_at(rest[0].start)
        )


def _tokens(sql: str, line_at: PlaceAt) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(sql)
    except TokenError as error:
        raise QueryError(f"sql: {error}: expected closed quotes and comments", line_at(0)) from error


def _clause_start(tokens: Sequence[Token], line_at: PlaceAt) -> int | None:
    found = [
        k
        for k, token in enumerate(tokens)
        if token.token_type is TokenType.WINDOW and tokens[k - 1].token_type is not TokenType.DOT
    ]
    if len(found) > 1:
        raise QueryError("a second WINDOW: expected one", line_at(tokens[found[1]].start))
    return found[0] if found else None


def _fits(expected: str, token: Token) -> bool:
    if expected == "'":
        return token.token_type is TokenType.STRING
    return token.text.upper() == expected


def _blanked(sql: str, start: int, end: int) -> str:
    return sql[:start] + "".join(c if c in "\r\n" else " " for c in sql[start:end]) + sql[end:]


def _window(slide_text: str, length_text: str, line: int) -> Window:
    slide, slide_is_time = _size(slide_text, "slide", line)
    length, is_time = _size(length_text, "length", line)
    if slide_is_time != is_time:
        raise QueryError(
            f"window: slide '{slide_text}' and length '{length_text}' differ in kind: "
            "expected two counts ('10K', '100K') or two durations ('1 min', '5 min')",
            line,
        )
    _check_size(length, length_text, is_time, line)
    if slide > length or length % slide:
        raise QueryError(
            f"window: slide '{slide_text}' doesn't divide the length '{length_text}': "
            "expected the length to be a whole multiple of the slide",
            line,
        )
    return Window(is_time, length, slide)


def _size(text: str, what: str, line: int) -> tuple[int, bool]:
    count, duration = parse_count(text), parse_duration_us(text)
    size = duration if count is None else count
    if size is None:
        raise QueryError(
            f"window: {what} '{text}' is neither a count nor a duration: expected one such as '500', '10K', '2M', "
            "'250 ms', '5 s', '1 min' or '2 hours'",
            line,
        )
    if size == 0:
        raise QueryError(f"window: {what} '{text}' is zero: expected more", line)
    return size, count is None


def _check_size(length: int, text: str, is_time: bool, line: int) -> None:
    if length > (LENGTH_US_MAX if is_time else LENGTH_TUPLES_MAX):
        most = "10 years (3653 days)" if is_time else "1,000,000,000 tuples ('1000M')"
        raise QueryError(f"window: length '{text}' is too large: expected at most {most}", line)
