"""Turns a drawn query into a user's statement with conditions, texts, NULL, columns and rows that ask.

The product's text and the oracle's join are drawn together, entirely from the given generator.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from loadgen.simulate import probabilities as odds
from loadgen.simulate.asking import BestOf, LeftQuestion, Reduced
from loadgen.simulate.conditions import (
    Among,
    Compared,
    Computation,
    Condition,
    Either,
    IsNull,
    Literal,
    Negation,
    SideColumn,
    Term,
)
from loadgen.simulate.drawn_query import TEXT, Attribute, Attributes, DrawnQuery, as_yaml, schemas_of
from loadgen.simulate.oracle import Comparison, OracleJoin
from spojoin.model import Column, ColumnType, Op, Output, TypeName
from spojoin.query.load import parse_query

#: Texts; some differ only in case, and one is empty.
_TEXTS = ("JFK", "jfk", "LGA", "", "Zürich")
#: More texts than recent rows hold.
_MANY_TEXTS = (*_TEXTS, *(f"gate {number}" for number in range(12)))
_TEXT_NAMES = ("t", "u")
_SIGNS = ("<", "<=", ">", ">=", "=", "<>")
_WHOLE_TYPES = (TypeName.INT, TypeName.LONG)
#: Types that the oracle and the expression engine format alike.
_PLAIN_TYPES = (*_WHOLE_TYPES, TypeName.DECIMAL, TypeName.DOUBLE, TypeName.FLOAT, TypeName.STRING)
_NUMBERS = {TypeName.INT: (-2, 0, 1), TypeName.LONG: (0, 2**53 + 1), TypeName.DECIMAL: (0, 0.25)}


def elaborate(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """The elaborated query, over the same columns and two text columns."""
    attributes = tuple((*(each for each in own if each.family != TEXT), *_texts(rng)) for own in drawn.attributes)
    join = _with_conditions(rng, drawn.join, attributes)
    if rng.random() < odds.LONG_WINDOW and not join.interval_us:
        join = replace(join, window=replace(join.window, length=max(odds.LENGTH_SLIDES) * join.window.slide))
    if rng.random() < odds.SELECT_LIST:
        join = replace(join, output=Output.ROWS, limit=None, select=_select(rng, attributes))
    return DrawnQuery(join, parse_query(as_yaml(join, schemas_of(attributes), drawn.query.order)), attributes)


def _texts(rng: Random) -> list[Attribute]:
    kind = ColumnType(TypeName.STRING)
    domain = _MANY_TEXTS if rng.random() < odds.MANY_TEXTS else _TEXTS[: rng.randint(2, len(_TEXTS))]
    return [Attribute(name, kind, domain, False, TEXT) for name in _TEXT_NAMES]


def _with_conditions(rng: Random, join: OracleJoin, attributes: Attributes) -> OracleJoin:
    equalities = [_equality(rng) for _ in range(rng.choices((0, 1, 2), odds.TEXT_EQUALITIES_WEIGHTS)[0])]
    filters = [_filter(rng, side, attributes) for side in (0, 1)]
    if join.is_self and rng.random() < odds.SAME_FILTER:
        filters[1] = tuple(_mirrored(each) for each in filters[0])
    residuals = (_residual(rng, attributes),) if rng.random() < odds.RESIDUAL else ()
    kept = join.comparisons[: len(join.comparisons) - rng.randint(0, 1)] if equalities else join.comparisons
    return replace(
        join, comparisons=(*kept, *equalities), filters=(filters[0], filters[1]), residuals=residuals, keeps_nulls=True
    )


def _equality(rng: Random) -> Comparison:
    left = rng.choice(_TEXT_NAMES)
    right = left if rng.random() < odds.SAME_TEXT_COLUMN else rng.choice(_TEXT_NAMES)
    op = Op.EQ if rng.random() < odds.TEXT_EQUAL else Op.NE
    return Comparison(Column(left), op, Column(right), Fraction(0), False, rng.random() < odds.IGNORES_CASE)


# --- conditions -------------------------------------------------------------------------------------------------------


def _filter(rng: Random, side: int, attributes: Attributes) -> tuple[Condition, ...]:
    count = rng.choices((0, 1, 2), odds.FILTERS_WEIGHTS)[0]
    return tuple(_of_side(rng, side, attributes) for _ in range(count))


def _of_side(rng: Random, side: int, attributes: Attributes) -> Condition:
    """A condition on one side's columns."""
    first, second = (_simple(rng, side, attributes) for _ in range(2))
    return rng.choice((first, first, Negation(first), Either((first, second))))


def _simple(rng: Random, side: int, attributes: Attributes) -> Condition:
    attribute = _plain(rng, attributes[min(side, len(attributes) - 1)])
    column = SideColumn(side, attribute.name)
    if rng.random() < odds.NULL_TEST:
        return IsNull(column, negated=rng.random() < odds.NOT_NULL)
    literals = _literals(attribute)
    if rng.random() < odds.AMONG:
        return Among(column, tuple(rng.sample(literals, min(2, len(literals)))))
    return Compared(column, rng.choice(_SIGNS), rng.choice(literals))


def _literals(attribute: Attribute) -> list[Literal]:
    if attribute.family == TEXT:
        return [Literal(text) for text in _TEXTS]
    return [Literal(number) for number in _NUMBERS.get(attribute.type.name, (0, 0.5, 1))]


def _plain(rng: Random, attributes: tuple[Attribute, ...]) -> Attribute:
    return rng.choice([each for each in attributes if each.type.name in _PLAIN_TYPES])


def _mirrored(condition: Condition) -> Condition:
    """The left side's condition for the right side."""
    match condition:
        case Compared(SideColumn(_, name), sign, right):
            return Compared(SideColumn(1, name), sign, right)
        case IsNull(SideColumn(_, name), negated):
            return IsNull(SideColumn(1, name), negated)
        case Among(SideColumn(_, name), literals):
            return Among(SideColumn(1, name), literals)
        case Negation(inner):
            return Negation(_mirrored(inner))
        case Either(conditions):
            return Either(tuple(_mirrored(each) for each in conditions))
    raise AssertionError(f"{condition} isn't drawn for one side")


def _residual(rng: Random, attributes: Attributes) -> Condition:
    """A condition on both sides that no index answers."""
    kind = rng.random()
    if kind < odds.SEQ_RESIDUAL:
        return Compared(SideColumn(0, "seq"), rng.choice(_SIGNS), SideColumn(1, "seq"))
    if kind < odds.SEQ_RESIDUAL + odds.TEXT_ORDER_RESIDUAL:
        return Compared(SideColumn(0, rng.choice(_TEXT_NAMES)), rng.choice(("<", ">=")), SideColumn(1, "t"))
    either = Either((_of_side(rng, 0, attributes), _of_side(rng, 1, attributes)))
    pair = _of_pair(rng, attributes)
    if pair is None:
        return either
    return rng.choice((either, Either((pair, _of_side(rng, rng.randint(0, 1), attributes)))))


def _of_pair(rng: Random, attributes: Attributes) -> Condition | None:
    """A comparison of columns of the same type; None if the sides have no common type."""
    left = _plain(rng, attributes[0])
    alike = [each for each in attributes[-1] if each.type == left.type]
    if not alike:
        return None
    return Compared(SideColumn(0, left.name), rng.choice(_SIGNS), SideColumn(1, rng.choice(alike).name))


# --- columns of results -----------------------------------------------------------------------------------------------


def _select(rng: Random, attributes: Attributes) -> tuple[tuple[str, Term], ...]:
    terms = [_term(rng, attributes) for _ in range(rng.randint(1, 4))]
    return tuple((f"c{number}", term) for number, term in enumerate(terms))


def _term(rng: Random, attributes: Attributes) -> Term:
    kind = rng.random()
    if kind < odds.SELECTS_NUMBER:
        return SideColumn(rng.randint(0, 1), rng.choice(("seq", "id")))
    if kind < odds.SELECTS_NUMBER + odds.SELECTS_COMPUTED:
        return _computed(rng, attributes)
    side = rng.randint(0, 1)
    return SideColumn(side, _plain(rng, attributes[min(side, len(attributes) - 1)]).name)


def _computed(rng: Random, attributes: Attributes) -> Term:
    left = _plain(rng, attributes[0])
    alike = [each for each in attributes[-1] if each.type == left.type and each.may_compute]
    if left.type.name not in _WHOLE_TYPES or not left.may_compute or not alike:
        return Computation("||", SideColumn(0, rng.choice(_TEXT_NAMES)), SideColumn(1, rng.choice(_TEXT_NAMES)))
    return Computation("-", SideColumn(0, left.name), SideColumn(1, rng.choice(alike).name))


_WHOLE = (TypeName.INT, TypeName.LONG, TypeName.DECIMAL)
_SUMMED = (*_WHOLE, TypeName.FLOAT, TypeName.DOUBLE)
_ORDERED = (*_SUMMED, TypeName.STRING)


def asking(rng: Random, drawn: DrawnQuery, *, may_close: bool = True) -> DrawnQuery:
    """The query, perhaps with left rows that ask or rows of both sides; `may_close`: whether also on close."""
    if rng.random() >= odds.ASKS:
        return drawn
    right = drawn.attributes[-1]
    asked = draw_question(rng, right)
    if rng.random() < odds.FULL:
        asked = LeftQuestion("FULL", rng.random() < odds.AT_CLOSE)
    if not may_close:
        asked = replace(asked, at_close=False)
    if asked == LeftQuestion("INNER", at_close=False):  # plain pairs as they come
        return drawn
    join = asking_join(rng, drawn, asked)
    if asked.join == "FULL":  # which also returns the rows that fail their side's condition
        filters = [condition for side in join.filters for condition in side]
        join = replace(join, filters=((), ()), residuals=(*join.residuals, *filters))
    query = parse_query(as_yaml(join, schemas_of(drawn.attributes), drawn.query.order))
    return DrawnQuery(join, query, drawn.attributes)


def asking_join(rng: Random, drawn: DrawnQuery, asked: LeftQuestion) -> OracleJoin:
    """The join whose left rows ask this, with a select list."""
    only_left = bool(asked.aggregates) or asked.join in ("SEMI", "ANTI")
    names = [("n", SideColumn(0, "seq")), *_columns(rng, 0, drawn.attributes[0])]
    if not only_left:
        names += [("p", SideColumn(1, "seq")), *_columns(rng, 1, drawn.attributes[-1])]
    return replace(drawn.join, asking=asked, output=Output.ROWS, limit=None, select=tuple(names))


def draw_question(rng: Random, right: tuple[Attribute, ...]) -> LeftQuestion:
    """Draw the question of left rows about right rows with these columns."""
    at_close = rng.random() < odds.AT_CLOSE
    form = rng.choices(("pairs", "left", "semi", "group", "best"), odds.ASKED_WEIGHTS)[0]
    outer = rng.choice(("INNER", "LEFT"))
    if form == "pairs":
        return LeftQuestion("INNER", at_close=True)
    if form == "left":
        return LeftQuestion("LEFT", at_close)
    if form == "semi":
        return LeftQuestion(rng.choice(("SEMI", "ANTI")), at_close)
    if form == "best":
        column = SideColumn(1, rng.choice([each for each in right if each.type.name in _ORDERED]).name)
        return LeftQuestion(outer, at_close, best=BestOf(rng.randint(1, 3), column, rng.random() < odds.DESCENDING))
    aggregates = tuple((f"g{number}", _reduced(rng, right)) for number in range(rng.randint(1, 3)))
    having = rng.randint(1, 4) if rng.random() < odds.HAVING else None
    return LeftQuestion(outer, at_close, aggregates, having)


def _reduced(rng: Random, right: tuple[Attribute, ...]) -> Reduced:
    function = rng.choice(("count", "count", "sum", "avg", "min", "max", "arg_min"))
    kinds = _SUMMED if function in ("sum", "avg") else _ORDERED
    known = [each.name for each in right if each.type.name in kinds]
    if (function == "count" and rng.random() < odds.COUNTS_ALL) or not known:
        return Reduced("count")
    return Reduced(function, SideColumn(1, rng.choice(known)))


def _columns(rng: Random, side: int, attributes: tuple[Attribute, ...]) -> list[tuple[str, Term]]:
    plain = [each.name for each in attributes if each.type.name in _ORDERED]
    chosen = rng.sample(plain, min(len(plain), rng.randint(0, 2)))
    return [(f"c{side}{number}", SideColumn(side, name)) for number, name in enumerate(chosen)]
