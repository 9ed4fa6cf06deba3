"""Interval joins from their SQL: the interval of a condition, how the windows represent it, and every mistake."""

import io

import pytest
from rich.console import Console

from spojoin.errors import QueryError
from spojoin.explain.plan import explain, render
from spojoin.model import Op, Order
from spojoin.query.load import parse_query
from spojoin.windows import IntervalWindow, RowWindow, TimeWindow

TEXT = """\
name: near
streams:
  a: {schema: {k: long, x: int, at: timestamp, ms: long, day: date}, time: TIME}
  b: {schema: {k: long, x: int, at: timestamp, ms: long, day: date}, time: TIME}
sql: |
  SELECT * FROM a AS l JOIN STREAM AS r
  ON CONDITION
"""
SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND


def asked(condition: str, time: str = "at", stream: str = "b", more: str = "") -> str:
    text = TEXT.replace("TIME", time).replace("CONDITION", condition).replace("STREAM", stream) + more
    return text if stream == "b" else "\n".join(line for line in text.split("\n") if not line.startswith("  b:"))


def ends(condition: str, time: str = "at") -> tuple[int, int]:
    interval = parse_query(asked(f"l.k = r.k AND {condition}", time)).window
    assert isinstance(interval, IntervalWindow)
    return interval.lower_us, interval.upper_us


@pytest.mark.parametrize(
    ("condition", "lower", "upper"),
    [
        ("r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'", -MINUTE, 2 * MINUTE),
        ("l.at BETWEEN r.at - INTERVAL '1 min' AND r.at + INTERVAL '2 min'", -2 * MINUTE, MINUTE),
        ("r.at BETWEEN l.at AND l.at + INTERVAL 5 SECOND", 0, 5 * SECOND),
        ("r.at BETWEEN l.at - INTERVAL '5 s' AND l.at", -5 * SECOND, 0),
        ("r.at BETWEEN l.at + INTERVAL '1 s' AND l.at + INTERVAL '5 s'", SECOND, 5 * SECOND),
        ("r.at BETWEEN l.at - INTERVAL '5 s' AND l.at - INTERVAL '1 s'", -5 * SECOND, -SECOND),
        ("r.at > l.at - INTERVAL '1 s' AND r.at < l.at + INTERVAL '2 s'", -SECOND + 1, 2 * SECOND - 1),
        ("l.at <= r.at + INTERVAL '1 s' AND l.at + INTERVAL '2 s' >= r.at", -SECOND, 2 * SECOND),
        ("ABS(r.at - l.at) <= INTERVAL '3 s'", -3 * SECOND, 3 * SECOND),
        ("ABS(l.at - (r.at + INTERVAL '1 s')) < INTERVAL '3 s'", -4 * SECOND + 1, 2 * SECOND - 1),
        ("l.at = r.at", 0, 0),
        ("r.at >= l.at - INTERVAL '9 s' AND r.at >= l.at - INTERVAL '1 s' AND r.at <= l.at", -SECOND, 0),
    ],
)
def test_the_interval_of_a_condition(condition: str, lower: int, upper: int):
    assert ends(condition) == (lower, upper)


@pytest.mark.parametrize(
    ("condition", "time", "lower", "upper"),
    [
        ("r.ms BETWEEN l.ms - INTERVAL '1 s' AND l.ms + 500", "ms", -SECOND, SECOND // 2),
        ("ABS(l.ms - r.ms) < INTERVAL '2 ms'", "ms", -1999, 1999),
        ("r.ms < l.ms + 0.5 AND r.ms > l.ms - 1", "ms", -999, 499),
        ("r.day BETWEEN l.day - INTERVAL '1 day' AND l.day + INTERVAL '2 days'", "day", -DAY, 2 * DAY),
    ],
)
def test_an_offset_is_in_the_time_columns_unit(condition: str, time: str, lower: int, upper: int):
    assert ends(condition, time) == (lower, upper)


def test_the_windows_represent_the_interval():
    query = parse_query(asked("l.k = r.k AND r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'"))
    held = ("r.at >= l.at - INTERVAL '1 min'", "r.at <= l.at + INTERVAL '2 min'")
    assert query.window == IntervalWindow(-MINUTE, 2 * MINUTE, held)
    assert (query.order.by, query.window.length) == (Order.EVENT_TIME, 2 * MINUTE)
    assert [query.window_over(stream).length for stream in (0, 1)] == [2 * MINUTE, MINUTE]
    assert [p.text for p in query.predicates] == ["l.k = r.k"]
    assert [len(stream.keys) for stream in query.streams] == [1, 1]


@pytest.mark.parametrize(
    ("condition", "stream", "lengths"),
    [
        ("l.k = r.k AND r.at BETWEEN l.at + INTERVAL '1 s' AND l.at + INTERVAL '5 s'", "b", (5, 0)),
        ("l.k = r.k AND r.at BETWEEN l.at - INTERVAL '5 s' AND l.at - INTERVAL '1 s'", "b", (0, 5)),
        ("r.at BETWEEN l.at - INTERVAL '2 s' AND l.at + INTERVAL '5 s'", "b", (5, 2)),
    ],
)
def test_conditions_beyond_the_windows_stay_predicates(condition: str, stream: str, lengths: tuple[int, ...]):
    query = parse_query(asked(condition, stream=stream))
    assert query.window.sets_order
    assert query.window.expressed == ()
    assert [p.op for p in query.predicates][-2:] == [Op.LE, Op.GE]
    windows = [query.window_over(stream) for stream in range(len(query.streams))]
    assert windows == [TimeWindow(length * SECOND, 1) for length in lengths]


def test_two_windows_over_one_input_represent_a_self_join_whose_ends_differ():
    query = parse_query(asked("l.k = r.k AND r.at BETWEEN l.at AND l.at + INTERVAL '5 s'", stream="a"))
    assert (query.is_self, query.is_of_one_input) == (False, True)
    assert query.window == IntervalWindow(0, 5 * SECOND, ("r.at >= l.at", "r.at <= l.at + INTERVAL '5' SECOND"))
    assert [p.text for p in query.predicates] == ["l.k = r.k"]
    assert [query.window_over(stream) for stream in (0, 1)] == [TimeWindow(5 * SECOND, 1), TimeWindow(0, 1)]


def test_one_window_represents_a_symmetric_self_join():
    query = parse_query(asked("l.k = r.k AND ABS(l.at - r.at) <= INTERVAL '5 s'", stream="a"))
    assert query.window == IntervalWindow(-5 * SECOND, 5 * SECOND, ("ABS(l.at - r.at) <= INTERVAL '5' SECOND",))
    assert [p.text for p in query.predicates] == ["l.k = r.k"]


def test_with_an_explicit_window_times_are_ordinary_columns():
    window = "  WINDOW AS (SLIDE INTERVAL '1' ON '10')\n"
    query = parse_query(asked("r.at BETWEEN l.at AND l.at + INTERVAL '5 s'", more=window))
    assert (query.order.by, query.window) == (Order.ARRIVAL, RowWindow(10, 1))
    assert [p.op for p in query.predicates] == [Op.LE, Op.GE]
    assert query.window_over(0) == query.window_over(1) == query.window


def test_between_is_two_predicates_on_any_columns():
    query = parse_query(asked("l.x BETWEEN r.x - 1 AND r.x + 2 AND l.at = r.at"))
    assert [p.text for p in query.predicates] == ["l.x >= r.x - 1", "l.x <= r.x + 2"]


OPEN = [
    ("l.k = r.k", "missing WINDOW", "an interval of event times", "BETWEEN l.at - INTERVAL"),
    ("l.k = r.k AND r.at >= l.at", "the interval is open", "how much later the right", "expected both bounds"),
    ("l.k = r.k AND l.at - INTERVAL '1 s' > r.at", "the interval is open", "how much earlier the right"),
    ("l.k = r.k AND l.at != r.at", "missing WINDOW"),
    (
        "r.at BETWEEN l.at + INTERVAL '2 s' AND l.at + INTERVAL '1 s'",
        "the interval is empty",
        "at least 2 s",
        "lower bound",
    ),
    ("r.at > l.at AND r.at < l.at", "the interval is empty"),
    ("r.at BETWEEN l.at AND l.at + INTERVAL '4000 days'", "the interval is too long", "10 years"),
    ("r.at BETWEEN SYMMETRIC l.at AND l.at", "SYMMETRIC isn't supported"),
    ("r.at NOT BETWEEN l.at AND l.at", "can only filter pairs that an index finds"),
    ("r.ms BETWEEN l.ms AND l.ms + INTERVAL '1 s'", "'l.ms + INTERVAL '1' SECOND' is number + interval"),
]


@pytest.mark.parametrize(("condition", "parts"), [(condition, parts) for condition, *parts in OPEN])
def test_mistakes_say_what_to_write(condition: str, parts: list[str]):
    with pytest.raises(QueryError) as caught:
        parse_query(asked(condition))
    assert caught.value.line == 7
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_an_interval_over_integers_is_in_whole_milliseconds():
    with pytest.raises(QueryError, match="whole milliseconds"):
        parse_query(asked("r.ms BETWEEN l.ms AND l.ms + INTERVAL '5 us'", "ms"))


def test_an_order_of_arrival_has_no_interval():
    with pytest.raises(QueryError, match=r"line 8: .*event-time order.*'order: event_time'"):
        parse_query(asked("l.at = r.at AND l.k = r.k", more="order: arrival\n"))


def test_a_time_that_the_schema_lacks_is_reported():
    text = asked("l.k = r.k AND r.at BETWEEN l.at AND l.at").replace("at: timestamp, ", "")
    with pytest.raises(QueryError, match=r"unknown column of stream b 'at'.*add 'at: timestamp' to the schema"):
        parse_query(text)


def test_explain_shows_the_interval():
    query = parse_query(asked("l.k = r.k AND r.at BETWEEN l.at - INTERVAL '1 min' AND l.at"))
    plan = explain(query)
    assert plan.window_rules == (
        "interval join: the right side's event time minus the left's is -1 min to 0 s, ends included",
        "a tuple of a is kept until event time has advanced by 0 s",
        "a tuple of b is kept until event time has advanced by 1 min",
        "held by the windows, evaluated by no service: r.at >= l.at - INTERVAL '1 min' AND r.at <= l.at",
        "the bound is a column of the frame",
    )
    console = Console(file=io.StringIO(), width=200)
    render(plan, console)
    assert plan.window_rules[0] in console.file.getvalue()
