"""A table as the right side of a statement: TABLE(...), and what doesn't go with it."""

from __future__ import annotations

import sqlglot
from sqlglot import Token
from sqlglot.errors import TokenError

from spojoin.errors import QueryError
from spojoin.model import WHOLE_TABLE, JoinKind, Order, Window
from spojoin.query.places import PlaceAt
from spojoin.query.statement import JoinSide, Statement

_EXPECTED = "FROM orders AS l JOIN TABLE(tiers) AS r, or a file in quotes"


def split_tables(sql: str, line_at: PlaceAt) -> tuple[str, frozenset[int]]:
    """The SQL with each TABLE(name) as the name alone, at its place, and the places of these names."""
    try:
        tokens = sqlglot.tokenize(sql, dialect="duckdb")
    except TokenError as error:
        raise QueryError(f"sql: {error}: expected closed quotes and comments", line_at(0)) from error
    found = []
    for k, token in enumerate(tokens[:-1]):
        if k > 0 and token.text.upper() == "TABLE" and tokens[k - 1].text.upper() in ("FROM", "JOIN", ","):
            name = _named(tokens[k + 1 : k + 4], line_at(token.start))
            sql = _blanked(_blanked(sql, token.start, tokens[k + 1].end), tokens[k + 3].start, tokens[k + 3].end)
            found.append(name.start)
    return sql, frozenset(found)


def _named(following: list[Token], line: int) -> Token:
    if [token.text for token in (*following[:1], *following[2:])] != ["(", ")"]:
        raise QueryError(f"TABLE is followed by no name in parentheses: expected {_EXPECTED}", line)
    return following[1]


def _blanked(sql: str, start: int, last: int) -> str:
    return sql[:start] + "".join(c if c in "\r\n" else " " for c in sql[start : last + 1]) + sql[last + 1 :]


def as_table(side: JoinSide) -> str:
    """How the statement says that a side is a table."""
    return f"JOIN TABLE('{side.stream}')" if side.is_file else f"JOIN TABLE({side.stream})"


def table_window(statement: Statement, window: Window | None, order: Order | None, line: int) -> Window:
    """The window of a statement whose right side is a table: no other may be given. Raises QueryError."""
    table = statement.right.stream
    if window is not None:
        raise QueryError(f"'{table}' is a table, whose rows are always in the window: remove the clause WINDOW", line)
    if order is Order.EVENT_TIME:
        raise QueryError(
            f"'{table}' is a table, of whose rows the last version counts when a row comes: expected order arrival",
            line,
        )
    return WHOLE_TABLE


def check_left(statement: Statement) -> None:
    """QueryError where the left side is a table, or its rows would have to answer."""
    left, right = statement.left, statement.right
    if left.is_table and right.is_table:
        raise QueryError(
            f"'{left.stream}' and '{right.stream}' are tables, and only a stream's rows answer: expected a stream on "
            "the left side",
            left.line,
        )
    if left.is_table:
        raise QueryError(
            f"'{left.stream}' is a table, and the rows of {right.stream} ask about it: expected it on the other side, "
            f"FROM {right.stream} AS {right.alias} JOIN {left.stream} AS {left.alias} ON ...",
            left.line,
        )
    if right.is_table and statement.join is JoinKind.FULL:
        raise QueryError(
            f"'{right.stream}' is a table, whose rows never answer, and a FULL JOIN gives them back as well: expected "
            "LEFT JOIN",
            right.line,
        )
