"""Which forms of statement a scenario has: its join, order, window, output, conditions, columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spojoin.model import Arithmetic, Column, Expression, Op, Order, Output, TypeName
from spojoin.simulate.conditions import Computation, SideColumn
from spojoin.simulate.coverage import Event
from spojoin.simulate.messages import ENDS_AGAIN
from spojoin.simulate.oracle import Comparison
from spojoin.simulate.scenario import Scenario

_OPERATORS = {
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
    Op.EQ: "=",
    Op.NE: "!=",
    Op.BAND_LT: "band <",
    Op.BAND_LE: "band <=",
}
_COUNTS = {1: "one", 2: "two"}
_TYPES = {
    TypeName.INT: "int",
    TypeName.LONG: "long",
    TypeName.DECIMAL: "decimal",
    TypeName.FLOAT: "float",
    TypeName.DOUBLE: "double",
    TypeName.DATE: "date",
    TypeName.TIMESTAMP: "timestamp",
    TypeName.STRING: "text",
}
_NUMBERS = ("seq", "id")


def forms(scenario: Scenario) -> Counter[Event]:
    """Each form that the scenario has, with how often it has it."""
    found: Counter[Event] = Counter()
    for part in (_join, _order, _window, _output, _answer, _conditions, _columns, _select):
        found.update(part(scenario))
    return found


def _join(scenario: Scenario) -> Iterator[Event]:
    if scenario.join.is_self:
        yield "join", "self, one stream" if scenario.query.is_self else "self, two streams"
    else:
        yield "join", "cross"
    if any(partition for _, partition in scenario.inputs):
        yield "join", "partitions of one input"


def _order(scenario: Scenario) -> Iterator[Event]:
    yield "order", "arrival" if scenario.query.order is Order.ARRIVAL else "event time"
    if scenario.query.lateness_us:
        yield "order", "rows may be late"
    for messages in scenario.inputs.values():
        yield from (
            ("order", "heartbeat") for message in messages[: -1 - ENDS_AGAIN] if message.heartbeat_us is not None
        )


def _window(scenario: Scenario) -> Iterator[Event]:
    window = scenario.join.window
    if scenario.join.interval_us is not None:
        yield "window", "interval"
        return
    yield "window", "time" if window.is_time else "count"
    yield "window", "slide of one" if window.slide == 1 else "slide"
    if not window.is_time and window.length < sum(1 for _ in scenario.rows()):
        yield "window", "window shorter than the rows"


def _output(scenario: Scenario) -> Iterator[Event]:
    name = {Output.COUNT: "count", Output.PAIRS: "pairs", Output.BITMAP: "bitmap", Output.ROWS: "rows"}
    yield "output", name[scenario.query.output]
    if scenario.join.limit is not None:
        yield "output", "pairs with a limit"


def _answer(scenario: Scenario) -> Iterator[Event]:
    asking = scenario.join.asking
    if asking is None:
        return
    yield "answer", "at close" if asking.at_close else "at arrival"
    yield "answer", asking.join.lower()
    if asking.aggregates:
        yield "answer", "aggregates"
    if asking.having is not None:
        yield "answer", "condition on groups"
    if asking.best is not None:
        yield "answer", "best partners"


def _conditions(scenario: Scenario) -> Iterator[Event]:
    join = scenario.join
    yield "condition", _COUNTS.get(len(join.comparisons), "three or more")
    for comparison in join.comparisons:
        yield "operator", _OPERATORS[comparison.op]
        if isinstance(comparison.left, Arithmetic) or isinstance(comparison.right, Arithmetic):
            yield "condition", "over expressions"
        if TypeName.STRING in _types(scenario, comparison):
            yield "condition", "text equality" if comparison.op is Op.EQ else "text inequality"
        if comparison.ignores_case:
            yield "condition", "text regardless of case"
    filtered = sum(map(bool, join.filters))
    if filtered:
        yield "condition", "filters of both sides" if filtered == len(join.filters) else "filter of one side"
    if join.residuals:
        yield "condition", "residual"


def _columns(scenario: Scenario) -> Iterator[Event]:
    for comparison in scenario.join.comparisons:
        yield from (("column", _TYPES[kind]) for kind in _types(scenario, comparison))
    yield from (("column", "NULL") for row in scenario.rows() if None in row.values.values())


def _types(scenario: Scenario, comparison: Comparison) -> list[TypeName]:
    """The types of the columns that a comparison names."""
    streams = scenario.query.streams
    sides = ((comparison.left, streams[0]), (comparison.right, streams[-1]))
    return [stream.schema[name].name for expression, stream in sides for name in _names(expression)]


def _names(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Arithmetic):
        yield from _names(expression.left)
        yield from _names(expression.right)


def _select(scenario: Scenario) -> Iterator[Event]:
    for _, term in scenario.join.select:
        if isinstance(term, Computation):
            yield "select", "computed"
        elif isinstance(term, SideColumn):
            yield "select", "number or key" if term.name in _NUMBERS else "column of a side"
