"""A parsed statement with the clauses that only spojoin has; these define when rows are answered."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spojoin.errors import QueryError
from spojoin.model import EmitOn, JoinKind
from spojoin.query.answers import has_aggregates
from spojoin.query.clauses import split_asof, split_emit, split_tables, split_window, with_emit
from spojoin.query.dialects import check_foreign_words, check_quoted_paths, check_select_first, correcting_dialects
from spojoin.query.places import PlaceAt
from spojoin.query.statement import JoinSide, Statement, parse_statement
from spojoin.windows import AllRows, Window


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement with its clauses WINDOW and EMIT, None for a clause that it lacks.

    text: as written; plain: without these clauses; line_at: gives the line of a character of either text
    end: the place of the last character
    """

    statement: Statement
    window: Window | None
    emit_clause: EmitOn | None
    text: str
    plain: str
    line_at: PlaceAt
    end: int

    @property
    def emit(self) -> EmitOn:
        """When rows are answered: by default on close if they ask, but on arrival with a table, which is complete."""
        if self.statement.right.is_table:
            return EmitOn.ARRIVAL
        return self.emit_clause or (EmitOn.CLOSE if self.asks else EmitOn.ARRIVAL)

    @property
    def asks(self) -> bool:  # P16.1, P17.1
        """Whether left rows ask: each gets one answer about all its partners."""
        return self.emit_clause is EmitOn.CLOSE or self.statement.right.is_table or self._asks_by_its_clauses

    @property
    def _asks_by_its_clauses(self) -> bool:
        """Whether left rows ask, regardless of when they are answered and of the right side."""
        statement = self.statement
        return statement.join.keeps_where or statement.qualify is not None or has_aggregates(statement)

    @property
    def gives_rows(self) -> bool:
        """Whether results have the columns of a select list, unless another output is chosen."""
        return self.asks or not self.statement.is_star

    def check_emit(self) -> None:
        """QueryError if left rows ask in a window, and the statement doesn't say when they are answered."""
        if self.window is not None and self.emit_clause is None and self._asks_by_its_clauses:
            raise QueryError(
                "in a WINDOW this statement must say when rows answer: expected EMIT ON ARRIVAL at the end, for a row "
                "to answer when it arrives, about its earlier partners alone, or EMIT ON CLOSE, for it to answer when "
                "its window has passed, about all partners",
                self.end,
                instead=with_emit(self.text, EmitOn.CLOSE, self.line_at),
            )

    def emit_in(self, window: Window) -> EmitOn:
        """When rows are answered in a window; if all partners come before the row that asks, on arrival."""
        is_before = window.is_past and self.statement.join.kind is not JoinKind.FULL
        return EmitOn.ARRIVAL if is_before and self._asks_by_its_clauses else self.emit

    def over_all_rows(self) -> ParsedStatement:
        """The statement over inputs that end: the right side becomes a table; in a FULL JOIN, rows wait for the end."""
        if self.statement.join.kind is JoinKind.FULL:
            return replace(self, window=AllRows(), emit_clause=EmitOn.CLOSE)
        return replace(self, statement=replace(self.statement, right=replace(self.statement.right, is_table=True)))


def parse_sql(sql: str, line_at: PlaceAt) -> ParsedStatement:
    """A statement; line_at: gives the place of a character of `sql`. Raises QueryError."""
    end = line_at(len(sql.rstrip()) - 1)
    with correcting_dialects(sql):
        check_foreign_words(sql, line_at)
        check_select_first(sql, line_at)
        without_emit, emit_clause = split_emit(sql, line_at)
        without_window, window = split_window(without_emit, line_at)
        without_tables, tables = split_tables(without_window, line_at)
        plain, asof = split_asof(without_tables, sql, line_at)
        check_quoted_paths(plain, line_at)
        statement = parse_statement(plain, line_at, tables, asof)
    check_tables(statement)
    return ParsedStatement(statement, window, emit_clause, sql, plain, line_at, end)


def check_tables(statement: Statement) -> None:
    """QueryError if the left side is a table, or if rows of a table would need answers."""
    left, right = statement.left, statement.right
    if left.is_table and right.is_table:
        raise QueryError(
            f"'{left.stream}' and '{right.stream}' are tables, and only the rows of a stream answer: expected a stream "
            "on the left side",
            left.line,
        )
    if left.is_table:
        raise QueryError(
            f"'{left.stream}' is a table, and a table can only be the right side: expected "
            f"FROM {right.stream} AS {right.alias} JOIN {left.stream} AS {left.alias} ON ...",
            left.line,
        )
    if right.is_table and statement.join.kind is JoinKind.FULL:
        raise QueryError(
            f"'{right.stream}' is a table, whose rows never answer, but a FULL JOIN also gives the rows of the right "
            "side: expected LEFT JOIN",
            right.line,
        )


def as_table(side: JoinSide) -> str:
    """The join clause that makes a right side a table."""
    return f"JOIN TABLE('{side.stream}')" if side.is_file else f"JOIN TABLE({side.stream})"
