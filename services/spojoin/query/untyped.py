"""Types of columns without values, as of a file with a header alone, by what a statement does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import ColumnType, TypeName
from spojoin.query.column_types import parse_type
from spojoin.query.inferred import InferredSchema
from spojoin.query.statement import DIALECT, Statement, bare

_ORDERS: tuple[type[exp.Expression], ...] = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_COMPARISONS: tuple[type[exp.Expression], ...] = (*_ORDERS, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In)
#: What takes numbers, or times and intervals, and tells the type of one operand by the other.
_COMPUTATIONS: tuple[type[exp.Expression], ...] = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
#: What is of numbers, whatever their type.
_MEASURES: tuple[type[exp.Expression], ...] = (
    exp.Sum,
    exp.Avg,
    exp.Median,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
)
#: Expressions whose value has the type of their parts.
_OF_PARTS = (exp.Paren, exp.Neg, exp.Abs, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Greatest, exp.Least, exp.Coalesce)
_TIMESTAMP = ColumnType(TypeName.TIMESTAMP)
_DOUBLE = ColumnType(TypeName.DOUBLE)
_STRING = ColumnType(TypeName.STRING)

#: A column by its side and its name.
Place = tuple[int, str]


def with_named_columns(statement: Statement, found: Sequence[InferredSchema]) -> list[InferredSchema]:
    """The schemas, with the columns that the statement names of data that may have any, as an empty file of JSON."""
    named: list[dict[str, ColumnType]] = [{}, {}]
    for node in (each for tree in _trees(statement) for each in tree.find_all(exp.Column)):
        side = _side(statement, node)
        if side is not None and found[side].is_open and not isinstance(node.this, exp.Star):
            named[side][node.name] = _STRING
    return [
        InferredSchema({**each.columns, **more}, each.left_out, each.guessed, each.untyped | {*more}, each.is_open)
        for each, more in zip(found, named, strict=True)
    ]


def types_by_use(statement: Statement, found: Sequence[InferredSchema]) -> list[dict[str, ColumnType]]:
    """For each side, the types of its columns without values by what they are compared with, where that says one."""
    uses = _Uses(statement, found)
    return [{name: kind for (of, name), kind in uses.told().items() if of == side} for side in (0, 1)]


def ordered_texts(statement: Statement, found: Sequence[InferredSchema]) -> list[Place]:
    """The columns that are text by the first rows of a file, and that the statement compares by their order."""
    uses = _Uses(statement, found)
    orders = _found(statement, _ORDERS)
    columns = [each for node in orders for each in map(bare, _operands(node)) if isinstance(each, exp.Column)]
    places = dict.fromkeys(place for each in columns if (place := uses.place(each)) is not None)
    return [
        (side, name) for side, name in places if name in found[side].guessed and found[side].columns[name] == _STRING
    ]


class _Uses:
    """Columns without values in comparisons."""

    def __init__(self, statement: Statement, found: Sequence[InferredSchema]) -> None:
        self._statement = statement
        self._found = found
        self._types: dict[Place, ColumnType] = {}

    def told(self) -> Mapping[Place, ColumnType]:
        compared, computed = (_found(self._statement, kinds) for kinds in (_COMPARISONS, _COMPUTATIONS))
        for nodes in (compared, compared + computed):
            self._tell_all(nodes)
        for node in compared + computed + _found(self._statement, _MEASURES):
            if not isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.In):
                self._types |= dict.fromkeys(self._open_in(node), _DOUBLE)
        return self._types

    def _tell_all(self, nodes: Sequence[exp.Expression]) -> None:
        before = -1
        while before < len(self._types):
            before = len(self._types)
            for node in nodes:
                self._tell(node)

    def _tell(self, node: exp.Expression) -> None:
        kind = next((kind for each in _operands(node) if (kind := self._type(each)) is not None), None)
        if kind is not None:
            self._types |= dict.fromkeys(self._open_in(node), kind)

    def _open_in(self, node: exp.Expression) -> list[Place]:
        """The columns whose types aren't known yet among the operands of a comparison, and their parts."""
        columns = [column for each in _operands(node) for column in _parts(each) if isinstance(column, exp.Column)]
        places = [place for column in columns if (place := self.place(column)) is not None]
        return [place for place in places if self._is_untyped(place) and place not in self._types]

    def _type(self, node: exp.Expression) -> ColumnType | None:
        """The type that an operand says; text of literals says none, as it may be a time."""
        parts = list(_parts(node))
        found = [kind for each in parts if (kind := self._type_of_part(each)) is not None]
        if found:
            return found[0] if found[0].name is TypeName.CARRIED else replace(found[0], arrow=None)
        return _TIMESTAMP if any(isinstance(each, exp.Interval) for each in parts) else None

    def _type_of_part(self, node: exp.Expression) -> ColumnType | None:
        if isinstance(node, exp.Column):
            place = self.place(node)
            if place is None:
                return None
            return self._types.get(place) if self._is_untyped(place) else self._found[place[0]].columns[place[1]]
        if isinstance(node, exp.Cast):
            return _of_cast(node)
        return _DOUBLE if isinstance(node, exp.Literal) and not node.is_string else None

    def _is_untyped(self, place: Place) -> bool:
        return place[1] in self._found[place[0]].untyped

    def place(self, node: exp.Column) -> Place | None:
        """The column that a name stands for; None where it is none of the data's."""
        side = _side(self._statement, node)
        for each in (0, 1) if side is None and not node.table else (side,):
            columns = () if each is None else self._found[each].columns
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
    """What an operand is made of, where all of that has one type."""
    yield node
    if isinstance(node, _OF_PARTS):
        for each in node.iter_expressions():
            yield from _parts(each)


def _operands(node: exp.Expression) -> list[exp.Expression]:
    return list(node.iter_expressions())


def _found(statement: Statement, kinds: tuple[type[exp.Expression], ...]) -> list[exp.Expression]:
    return [node for tree in _trees(statement) for node in tree.find_all(*kinds)]


def _trees(statement: Statement) -> list[exp.Expression]:
    clauses = (statement.group, statement.having, statement.qualify)
    return [*statement.conjuncts, *statement.kept, *statement.columns, *(each for each in clauses if each is not None)]


def _side(statement: Statement, node: exp.Column) -> int | None:
    aliases = [side.alias.lower() for side in (statement.left, statement.right)]
    return aliases.index(node.table.lower()) if node.table.lower() in aliases else None
