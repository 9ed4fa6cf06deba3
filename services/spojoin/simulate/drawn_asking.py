"""Makes some statements ask: final answers, outer, semi and anti joins, aggregates, the best partners."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from spojoin.model import Output, TypeName
from spojoin.query.load import parse_query
from spojoin.simulate import probabilities as odds
from spojoin.simulate.asking import BestOf, LeftQuestion, Reduced
from spojoin.simulate.conditions import SideColumn, Term
from spojoin.simulate.drawn_query import Attribute, DrawnQuery, as_yaml
from spojoin.simulate.oracle import OracleJoin

_WHOLE = (TypeName.INT, TypeName.LONG, TypeName.DECIMAL)
_SUMMED = (*_WHOLE, TypeName.FLOAT, TypeName.DOUBLE)
_ORDERED = (*_SUMMED, TypeName.STRING)


def asking(rng: Random, drawn: DrawnQuery, *, may_close: bool = True, may_be_full: bool = False) -> DrawnQuery:
    """The query, perhaps with left rows that ask; `may_close`: also on close; `may_be_full`: also right rows."""
    if rng.random() >= odds.ASKS:
        return drawn
    right = drawn.attributes[-1]
    asked = draw_question(rng, right)
    if may_be_full and rng.random() < odds.FULL:
        asked = LeftQuestion("FULL", rng.random() < odds.AT_CLOSE)
    if not may_close:
        asked = replace(asked, at_close=False)
    if asked == LeftQuestion("INNER", at_close=False):  # plain pairs as they come
        return drawn
    join = asking_join(rng, drawn, asked)
    if asked.join == "FULL":  # which gives back the rows that fail a condition of their side
        filters = [condition for side in join.filters for condition in side]
        join = replace(join, filters=((), ()), residuals=(*join.residuals, *filters))
    query = parse_query(as_yaml(join, drawn.attributes, drawn.query.order, drawn.query.lateness_us))
    return DrawnQuery(join, query, drawn.attributes)


def asking_join(rng: Random, drawn: DrawnQuery, asked: LeftQuestion) -> OracleJoin:
    """The join whose left rows ask so, with a select list."""
    only_left = bool(asked.aggregates) or asked.join in ("SEMI", "ANTI")
    names = [("n", SideColumn(0, "seq")), *_columns(rng, 0, drawn.attributes[0])]
    if not only_left:
        names += [("p", SideColumn(1, "seq")), *_columns(rng, 1, drawn.attributes[-1])]
    return replace(drawn.join, asking=asked, output=Output.ROWS, limit=None, select=tuple(names))


def draw_question(rng: Random, right: tuple[Attribute, ...]) -> LeftQuestion:
    """What left rows ask about right ones of these columns."""
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
