"""Resolves the names in a statement to a side and a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import HEADERS, HEADERS_TYPE, INTEGERS, SEQ, ColumnType, TypeName, Use
from spojoin.query.nodes import written
from spojoin.suggest import listed, unknown

#: For types that are only passed on, the cast that makes a type with which statements can compute.
_WIDEST = {"duration[ns]": ", to duration[us]: DuckDB's intervals have no finer digits"}
#: The type of a row's number.
SEQ_TYPE = ColumnType(TypeName.LONG)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a statement may use: aliases, schemas, event times and declared keys by side, left first.

    using: the columns, in lower case, that USING merges into one
    """

    aliases: tuple[str, str]
    schemas: tuple[dict[str, ColumnType], dict[str, ColumnType]]
    streams: tuple[str, str]
    line_of: Callable[[exp.Expression], int]
    times: tuple[str | None, str | None] = (None, None)
    keys: tuple[str | None, str | None] = (None, None)
    left_out: tuple[Mapping[str, str], Mapping[str, str]] = field(default_factory=lambda: ({}, {}))
    using: tuple[str, ...] = ()

    @property
    def is_self(self) -> bool:
        """Whether both sides are the same stream."""
        return self.streams[0] == self.streams[1]

    def is_time_ms(self, uses: Sequence[Use]) -> bool:
        """Whether an operand uses only one column, an event time of integers, which are milliseconds."""
        return len(uses) == 1 and uses[0].name == self.times[uses[0].side] and uses[0].type.name in INTEGERS

    def column(self, node: exp.Column) -> Use:
        """The column that a name refers to in an expression. Raises QueryError if there is none, or more than one."""
        found = self.passed_column(node)
        if found.type.arrow is not None:
            self._check_evaluated(found, node)
        return found

    def passed_column(self, node: exp.Column) -> Use:
        """The column that a name refers to if its values are passed on unchanged. Raises QueryError like `column`."""
        line = self.line_of(node)
        if node.args.get("db"):
            raise self._of_three_parts(node, line)
        if not node.table:
            return self._without_side(node, line)
        side = self._side(node, line)
        found = self._in(side, node.this)
        if found is None:
            raise QueryError(self._unknown(side, node.name), line)
        return found

    def is_left_row(self, node: exp.Expression) -> bool:
        """Whether a name stands for the left row: its side's alias, its number, or its stream's declared key."""
        if not isinstance(node, exp.Column):
            return False
        if not node.table:
            return bool(node.name.lower() == self.aliases[0].lower())
        use = self.column(node)
        return use.side == 0 and (use.is_number or use.name == self.keys[0])

    def columns_of_side(self, side: int) -> list[Use]:
        """The columns of a side, in the order of its schema."""
        for name, why in self.left_out[side].items():
            others = listed(f"{self.aliases[side]}.{each}" for each in self.schemas[side])
            raise QueryError(f"'*' includes {self.aliases[side]}.{name}: {why}; expected the columns by name: {others}")
        return [Use(side, name, kind) for name, kind in self.schemas[side].items()]

    def side_of(self, identifier: exp.Expression, line: int) -> int:
        """The side with an alias. Raises QueryError if there is none."""
        matching = [i for i, alias in enumerate(self.aliases) if alias == identifier.name]
        if not matching and not _is_quoted(identifier):
            matching = [i for i, alias in enumerate(self.aliases) if alias.lower() == identifier.name.lower()]
        if not matching:
            raise QueryError(unknown("alias", identifier.name, self.aliases), line)
        return matching[0]

    def _of_three_parts(self, node: exp.Column, line: int) -> QueryError:
        """The error for `a.b.c` that isn't a part of a nested column."""
        return QueryError(f"column '{written(node)}': expected {self._qualified(node.name)}", line)

    def _check_evaluated(self, use: Use, node: exp.Column) -> None:
        from spojoin.expressions.types import is_evaluated  # noqa: PLC0415  (few columns have such types)

        if not is_evaluated(use.type):
            raise QueryError(
                f"'{written(node)}' is of type {use.type}, which expressions can't use: expected it alone in the "
                f"select list; to compute with it, cast it in the data{_WIDEST.get(str(use.type), '')}",
                self.line_of(node),
            )

    def _side(self, node: exp.Column, line: int) -> int:
        try:
            return self.side_of(node.args["table"], line)
        except QueryError:
            raise QueryError(f"'{written(node)}': {unknown('alias', node.table, self.aliases)}", line) from None

    def _without_side(self, node: exp.Column, line: int) -> Use:
        found = [use for side in (0, 1) if (use := self._in(side, node.this)) is not None]
        if len(found) == 1 or (found and found[0].name.lower() in self.using):
            return found[0]
        if not found and not self.is_self:
            known = dict.fromkeys((*self.schemas[0], *self.schemas[1]))
            raise QueryError(unknown("column", node.name, known), line)
        raise QueryError(f"column '{written(node)}' doesn't name its side: expected {self._qualified(node.name)}", line)

    def _qualified(self, name: str) -> str:
        return listed(f"{alias}.{name}" for alias in self.aliases)

    def _in(self, side: int, identifier: exp.Expression) -> Use | None:
        """A side's column with a name: the exact one, or if the name is unquoted, the only one in any case."""
        schema, name = self.schemas[side], identifier.name
        if name in schema:
            return Use(side, name, schema[name])
        if _is_quoted(identifier):
            return None
        alike = [known for known in schema if known.lower() == name.lower()]
        if len(alike) > 1:
            raise QueryError(
                f"column '{name}' may mean {listed(alike)} of stream {self.streams[side]}: expected its exact name in "
                'double quotes, such as "' + alike[0] + '"',
                self.line_of(identifier),
            )
        if alike:
            return Use(side, alike[0], schema[alike[0]])
        return _virtual(side, name.lower())

    def _unknown(self, side: int, name: str) -> str:
        if name in self.left_out[side]:
            return self.left_out[side][name]
        message = unknown(f"column of stream {self.streams[side]}", name, self.schemas[side])
        is_time = name == self.times[side]
        return f"{message}; it is the stream's time: add '{name}: timestamp' to the schema" if is_time else message


def _virtual(side: int, name: str) -> Use | None:
    """A column that every row has besides those of its schema, such as its number; None for other names."""
    if name == SEQ:
        return Use(side, SEQ, SEQ_TYPE, is_number=True)
    return Use(side, HEADERS, HEADERS_TYPE) if name == HEADERS else None


def _is_quoted(identifier: exp.Expression) -> bool:
    return bool(identifier.args.get("quoted"))
