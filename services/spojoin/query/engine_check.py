"""Checks the whole statement with DuckDB, so that a statement that DuckDB refuses is refused here as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp

from spojoin.errors import QueryError
from spojoin.model import HEADERS, HEADERS_TYPE, SEQ, ColumnType, TypeName
from spojoin.query.nodes import DIALECT
from spojoin.query.places import Edit
from spojoin.query.scope import Scope
from spojoin.query.statement import JoinSide, Statement

#: Intervals, with which more arithmetic is allowed here: bands of times, and event times that are milliseconds.
_FURTHER = re.compile(r"\binterval\b", re.IGNORECASE)
#: DuckDB's messages about unknown names, and about functions except operators and the distance of two times. In
#: `INTERVAL - 2`, the word is such a name of a column.
_NAMED = re.compile(r"No function matches the given name and argument types '\"?(?!abs\(INTERVAL)\w|Referenced column")
#: Reserved words that other engines allow as column names.
_RESERVED = ("at",)
_LINE = re.compile(r"^LINE (\d+): (.*)$", re.MULTILINE)


def check_statement(sql: str, tables: Mapping[str, Mapping[str, ColumnType]], line_at: Callable[[int], int]) -> None:
    """Raise QueryError, with DuckDB's message, if DuckDB can't parse or bind a statement over these tables.

    sql: without its window clause
    """
    import duckdb  # noqa: PLC0415  (few queries need the engine)

    from spojoin.expressions.engine import bind, sentence  # noqa: PLC0415

    if any(len({name.lower() for name in columns}) < len(columns) for columns in tables.values()):
        return  # in DuckDB, two columns of a table can't differ only in case
    found = {name: _bound(columns) for name, columns in tables.items()}
    try:
        try:
            bind(sql.replace("µs", "us"), found)
        except duckdb.ParserException:  # a column's name may be a reserved word of DuckDB
            bind(with_names_quoted(sql.replace("µs", "us")), found)
    except duckdb.Error as error:
        if isinstance(error, duckdb.BinderException) and _FURTHER.search(sql) and not _NAMED.search(str(error)):
            return
        raise QueryError(f"sql: {sentence(error)}", line_at(_place(sql, str(error)))) from error


def with_names_quoted(sql: str) -> str:
    """A statement with quotes around names that some versions of DuckDB reserve and other engines don't."""
    tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    for k in range(len(tokens) - 1, -1, -1):
        token, is_call = tokens[k], k + 1 < len(tokens) and tokens[k + 1].token_type is TokenType.L_PAREN
        if token.token_type is TokenType.VAR and token.text.lower() in _RESERVED and not is_call:
            sql = f'{sql[: token.start]}"{token.text}"{sql[token.end + 1 :]}'
    return sql


def checkable(sql: str, statement: Statement, scope: Scope) -> str:
    """The statement in a form that DuckDB binds: it groups only by columns, and allows one inequality for ASOF."""
    tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    edits = [_named(side, tokens) for side in (statement.left, statement.right) if not side.is_named]
    if statement.join.is_asof:
        asof = next(token for token in tokens if token.token_type is TokenType.ASOF)
        edits.append((asof.start, asof.end + 1, ""))
        edits += _without_using(tokens, statement) if statement.join.using else []
    if statement.group is not None:
        named = [each.meta for each in statement.group.expressions[0].find_all(exp.Identifier)]
        start, end = min(each["start"] for each in named), max(each["end"] for each in named)
        alias = '"' + scope.aliases[0] + '"'
        names = dict.fromkeys((*scope.schemas[0], SEQ, HEADERS))
        edits.append((start, end + 1, ", ".join(f'{alias}."{name}"' for name in names)))
    for start, stop, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[stop:]
    return sql


def _named(side: JoinSide, tokens: Sequence[Token]) -> Edit:
    """The edit that writes a side's alias."""
    end = next(token.end for token in tokens if token.start == side.start) + 1
    return end, end, f' AS "{side.alias}"'


def _without_using(tokens: Sequence[Token], statement: Statement) -> list[Edit]:
    """The edits that replace USING by ON, and put the left side's alias before the columns that USING names."""
    begin = next(k for k, token in enumerate(tokens) if token.token_type is TokenType.USING)
    end = next(k for k in range(begin, len(tokens)) if tokens[k].token_type is TokenType.R_PAREN)
    beside = (TokenType.DOT, TokenType.ALIAS)
    edits = [
        (token.start, token.end + 1, f'"{statement.left.alias}"."{token.text}"')
        for k, token in enumerate(tokens)
        if token.text.lower() in statement.join.using and not begin < k < end and tokens[k - 1].token_type not in beside
    ]
    return [*edits, (tokens[begin].start, tokens[end].end + 1, "ON true")]


def _bound(columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The columns, with those that every row has; nanoseconds become microseconds, since `exactly` compares both."""
    known = {pa.time64("ns"): pa.time64("us")}
    found = {name: replace(kind, arrow=known.get(kind.arrow, kind.arrow)) for name, kind in columns.items()}
    instants = {name: replace(kind, arrow=None) for name, kind in found.items() if kind.zone is not None}
    return {**_virtual(columns), **found, **instants}


def _virtual(columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The columns that every row has, except for names that the schema has."""
    known = {name.lower() for name in columns}
    found = {SEQ: ColumnType(TypeName.LONG), HEADERS: HEADERS_TYPE}
    return {name: kind for name, kind in found.items() if name not in known}


def _place(sql: str, error: str) -> int:
    """The character at which the engine's message points; the first one if it points at none."""
    lines = error.split("\n")
    for number, line in enumerate(lines[:-1]):
        found = _LINE.match(line)
        if found is None or "^" not in lines[number + 1]:
            continue
        begin = sum(len(each) + 1 for each in sql.split("\n")[: int(found[1]) - 1])
        shown = found[2].strip(".")
        at = sql.find(shown.strip(), begin)
        column = lines[number + 1].index("^") - found.start(2) - (len(found[2]) - len(found[2].lstrip(". ")))
        return min(max(at, begin) + max(column, 0), max(len(sql) - 1, 0))
    return 0
