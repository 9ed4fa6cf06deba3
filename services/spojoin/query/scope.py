"""Names in a statement: which side and column each stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import HEADERS, HEADERS_TYPE, SEQ, ColumnType, TypeName, Use
from spojoin.query.statement import written
from spojoin.suggest import listed, unknown

_INTEGERS = (TypeName.INT, TypeName.LONG)
#: What a type becomes that only passes, so that statements compute with it.
_WIDEST = {"duration[ns]": ", to duration[us]: DuckDB's intervals have no finer digits"}
#: The type of rows' numbers.
SEQ_TYPE = ColumnType(TypeName.LONG)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a statement may use: aliases, schemas, event times and declared keys by side, left first.

    using: columns, in lower case, that USING makes one of both sides'
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
        """Whether an operand is built on one event-time column of integers, which are milliseconds."""
        return len(uses) == 1 and uses[0].name == self.times[uses[0].side] and uses[0].type.name in _INTEGERS

    def column(self, node: exp.Column) -> Use:
        """The column that a name stands for in an expression. QueryError where there is none, or more than one."""
        found = self.passed(node)
        if found.type.arrow is not None:
            self._check_evaluated(found, node)
        return found

    def passed(self, node: exp.Column) -> Use:
        """The column that a name stands for where its values are passed on as they are. QueryError as `column`."""
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
        """Whether a name means the left row: its side's alias, its number, or its stream's declared key."""
        if not isinstance(node, exp.Column):
            return False
        if not node.table:
            return bool(node.name.lower() == self.aliases[0].lower())
        use = self.column(node)
        return use.side == 0 and (use.is_number or use.name == self.keys[0])

    def all_of(self, side: int) -> list[Use]:
        """The columns of a side, in the order of its schema."""
        for name, why in self.left_out[side].items():
            others = listed(f"{self.aliases[side]}.{each}" for each in self.schemas[side])
            raise QueryError(f"'*' covers {self.aliases[side]}.{name}: {why}; expected the columns by name: {others}")
        return [Use(side, name, kind) for name, kind in self.schemas[side].items()]

    def side_of(self, identifier: exp.Expression, line: int) -> int:
        """The side that an alias names."""
        matching = [i for i, alias in enumerate(self.aliases) if alias == identifier.name]
        if not matching and not _is_quoted(identifier):
            matching = [i for i, alias in enumerate(self.aliases) if alias.lower() == identifier.name.lower()]
        if not matching:
            raise QueryError(unknown("alias", identifier.name, self.aliases), line)
        return matching[0]

    def _of_three_parts(self, node: exp.Column, line: int) -> QueryError:
        """What is wrong with `a.b.c`, which is no part of a nested column."""
        return QueryError(f"column '{written(node)}': expected {self._qualified(node.name)}", line)

    def _check_evaluated(self, use: Use, node: exp.Column) -> None:
        from spojoin.expressions.types import is_evaluated  # noqa: PLC0415  (few columns have such types)

        if not is_evaluated(use.type):
            raise QueryError(
                f"'{written(node)}' is {use.type}, which statements can only carry to the results: expected it alone "
                f"in the select list; to compute with it, cast it in the data{_WIDEST.get(str(use.type), '')}",
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
        """A side's column of a name: the exact one, or where unquoted the only one but for case."""
        schema, name = self.schemas[side], identifier.name
        if name in schema:
            return Use(side, name, schema[name])
        if _is_quoted(identifier):
            return None
        alike = [known for known in schema if known.lower() == name.lower()]
        if len(alike) > 1:
            raise QueryError(
                f"column '{name}' may be {listed(alike)} of stream {self.streams[side]}: put its exact name in "
                'double quotes, such as "' + alike[0] + '"',
                self.line_of(identifier),
            )
        if alike:
            return Use(side, alike[0], schema[alike[0]])
        return _virtual(side, name.lower())

    def _unknown(self, side: int, name: str) -> str:
        if name in self.left_out[side]:
            return self.left_out[side][name]
        wanted = f"; it is the stream's time: add '{name}: timestamp' to the schema"
        hint = wanted if name == self.times[side] else ""
        return unknown(f"column of stream {self.streams[side]}", name, self.schemas[side]) + hint


def _virtual(side: int, name: str) -> Use | None:
    """Columns that every row has, besides those of its schema."""
    if name == SEQ:
        return Use(side, SEQ, SEQ_TYPE, is_number=True)
    return Use(side, HEADERS, HEADERS_TYPE) if name == HEADERS else None


def _is_quoted(identifier: exp.Expression) -> bool:
    return bool(identifier.args.get("quoted"))
