"""Finds the types of columns without values, as in a file with only a header, by their use in a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from spojoin.aggregates.functions import FUNCTIONS
from spojoin.columns.column_types import parse_type
from spojoin.columns.inferred import InferredSchema
from spojoin.errors import QueryError
from spojoin.model import ColumnType, TypeName
from spojoin.query.nodes import DIALECT, bare
from spojoin.query.statement import Statement

_ORDERS: tuple[type[exp.Expression], ...] = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_COMPARISONS: tuple[type[exp.Expression], ...] = (*_ORDERS, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In)
#: Arithmetic on numbers, or on times and intervals, in which one operand's type shows the other's.
_COMPUTATIONS: tuple[type[exp.Expression], ...] = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
#: Aggregates whose arguments are numbers of any type.
_MEASURES = tuple(node for one in FUNCTIONS if one.suggests_doubles for node in one.nodes)
#: Expressions whose value has the type of their parts.
_OF_PARTS = (exp.Paren, exp.Neg, exp.Abs, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Greatest, exp.Least, exp.Coalesce)
_TIMESTAMP = ColumnType(TypeName.TIMESTAMP)
_DOUBLE = ColumnType(TypeName.DOUBLE)
_STRING = ColumnType(TypeName.STRING)

#: A side, 0 left and 1 right, and the name of one of its columns.
SideColumn = tuple[int, str]


def with_named_columns(statement: Statement, schemas: Sequence[InferredSchema]) -> list[InferredSchema]:
    """The schemas, plus the columns that the statement names if the data may have any, as an empty JSON file."""
    named: list[dict[str, ColumnType]] = [{}, {}]
    for node in (each for tree in _trees(statement) for each in tree.find_all(exp.Column)):
        side = _side(statement, node)
        if side is not None and schemas[side].is_open and not isinstance(node.this, exp.Star):
            named[side][node.name] = _STRING
    return [
        InferredSchema({**each.columns, **more}, each.left_out, each.guessed, each.untyped | {*more}, each.is_open)
        for each, more in zip(schemas, named, strict=True)
    ]


def types_by_use(statement: Statement, schemas: Sequence[InferredSchema]) -> list[dict[str, ColumnType]]:
    """For each side, the types of its columns without values, as far as the statement's other operands show them."""
    uses = _Uses(statement, schemas)
    return [{name: kind for (of, name), kind in uses.inferred_types().items() if of == side} for side in (0, 1)]


def ordered_texts(statement: Statement, schemas: Sequence[InferredSchema]) -> list[SideColumn]:
    """The columns that are text in a file's first rows and that the statement compares by order."""
    uses = _Uses(statement, schemas)
    orders = _nodes_of(statement, _ORDERS)
    columns = [each for node in orders for each in map(bare, _operands(node)) if isinstance(each, exp.Column)]
    named = dict.fromkeys(column for each in columns if (column := uses.column(each)) is not None)
    return [
        (side, name) for side, name in named if name in schemas[side].guessed and schemas[side].columns[name] == _STRING
    ]


class _Uses:
    """Columns without values, and the types that comparisons and computations show for them."""

    def __init__(self, statement: Statement, schemas: Sequence[InferredSchema]) -> None:
        self._statement = statement
        self._schemas = schemas
        self._types: dict[SideColumn, ColumnType] = {}

    def inferred_types(self) -> Mapping[SideColumn, ColumnType]:
        compared, computed = (_nodes_of(self._statement, kinds) for kinds in (_COMPARISONS, _COMPUTATIONS))
        for nodes in (compared, compared + computed):
            self._infer_all(nodes)
        for node in compared + computed + _nodes_of(self._statement, _MEASURES):
            if not isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.In):
                self._types |= dict.fromkeys(self._untyped_in(node), _DOUBLE)
        return self._types

    def _infer_all(self, nodes: Sequence[exp.Expression]) -> None:
        before = -1
        while before < len(self._types):
            before = len(self._types)
            for node in nodes:
                self._infer(node)

    def _infer(self, node: exp.Expression) -> None:
        kind = next((kind for each in _operands(node) if (kind := self._type(each)) is not None), None)
        if kind is not None:
            self._types |= dict.fromkeys(self._untyped_in(node), kind)

    def _untyped_in(self, node: exp.Expression) -> list[SideColumn]:
        """The columns of unknown type among a comparison's operands and their parts."""
        nodes = [part for operand in _operands(node) for part in _parts(operand) if isinstance(part, exp.Column)]
        columns = [column for node in nodes if (column := self.column(node)) is not None]
        return [column for column in columns if self._is_untyped(column) and column not in self._types]

    def _type(self, node: exp.Expression) -> ColumnType | None:
        """The type that an operand shows; a text literal shows none, as it may be a time."""
        parts = list(_parts(node))
        found = [kind for each in parts if (kind := self._type_of_part(each)) is not None]
        if found:
            return found[0] if found[0].name is TypeName.CARRIED else replace(found[0], arrow=None)
        return _TIMESTAMP if any(isinstance(each, exp.Interval) for each in parts) else None

    def _type_of_part(self, node: exp.Expression) -> ColumnType | None:
        if isinstance(node, exp.Column):
            column = self.column(node)
            if column is None:
                return None
            side, name = column
            return self._types.get(column) if self._is_untyped(column) else self._schemas[side].columns[name]
        if isinstance(node, exp.Cast):
            return _of_cast(node)
        return _DOUBLE if isinstance(node, exp.Literal) and not node.is_string else None

    def _is_untyped(self, column: SideColumn) -> bool:
        side, name = column
        return name in self._schemas[side].untyped

    def column(self, node: exp.Column) -> SideColumn | None:
        """The column that a name refers to; None if the data lacks it."""
        side = _side(self._statement, node)
        for each in (0, 1) if side is None and not node.table else (side,):
            columns = () if each is None else self._schemas[each].columns
            alike = [name for name in columns if name == node.name] or [
                name for name in columns if name.lower() == node.name.lower()
            ]
            if each is not None and alike:
                return each, alike[0]
        return None


def _of_cast(node: exp.Cast) -> ColumnType | None:
    try:
        return parse_type(node.to.sql(DIALECT), "", None)
    except QueryError:
        return None


def _parts(node: exp.Expression) -> Iterator[exp.Expression]:
    """An operand and its parts, as far as all of them have one type."""
    yield node
    if isinstance(node, _OF_PARTS):
        for each in node.iter_expressions():
            yield from _parts(each)


def _operands(node: exp.Expression) -> list[exp.Expression]:
    return list(node.iter_expressions())


def _nodes_of(statement: Statement, kinds: tuple[type[exp.Expression], ...]) -> list[exp.Expression]:
    return [node for tree in _trees(statement) for node in tree.find_all(*kinds)]


def _trees(statement: Statement) -> list[exp.Expression]:
    clauses = (statement.group, statement.having, statement.qualify)
    return [*statement.conjuncts, *statement.kept, *statement.columns, *(each for each in clauses if each is not None)]


def _side(statement: Statement, node: exp.Column) -> int | None:
    aliases = [side.alias.lower() for side in (statement.left, statement.right)]
    return aliases.index(node.table.lower()) if node.table.lower() in aliases else None
