"""Where a new generation starts to read its inputs: against a brute force over everything that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.window import window_begin, window_of
from spojoin.model import Order, Query, RowOrder
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.query.load import parse_query
from spojoin.runtime import backfill
from spojoin.windows import RowWindow, TimeWindow
from spojoin.wire.records import DeadLetter, Rows

NEVER = -(2**63)
LATENESS = 2
QUERY = """
name: q
streams: {a: {schema: {x: double}, time: t}, b: {schema: {x: double}, time: t}}
sql: SELECT * FROM a AS l JOIN OTHER AS r ON l.x > r.x WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
SELF = parse_query(QUERY.replace("OTHER", "a").replace(", b: {schema: {x: double}, time: t}", ""))
CROSS = parse_query(QUERY.replace("OTHER", "b"))


# -- inputs: a message is a list of event times in us, None for a row that is refused


@dataclass(frozen=True, slots=True)
class Message:
    """Rows by their event times, and the time of production; or a heartbeat."""

    rows: list[int | None]
    produced_ms: int
    heartbeat_us: int | None = None


def parse(stream: int, partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
    found = [(r, row, time) for r in records for row, time in enumerate(orjson.loads(r.value))]
    good = [(r, row, time) for r, row, time in found if time is not None]
    dead = [
        DeadLetter(stream, partition, r.offset, row, "null", "no time", b"") for r, row, time in found if time is None
    ]
    return Rows(
        offsets=np.array([r.offset for r, _, _ in good], np.int64),
        rows=np.array([row for _, row, _ in good], np.int64),
        next_offset=records[-1].offset + 1 if records else 0,
        codes=(),
        times_us=np.array([time for _, _, time in good], np.int64),
        keys=pa.array([0] * len(good), pa.int64()),
        produced_ms=np.array([r.timestamp_ms for r, _, _ in good], np.int64),
        dead=dead,
        heartbeat_us=max((int(value) for r in records for _, value in r.headers), default=None),
    )


def filled(
    asked: Query,
    inputs: Sequence[Sequence[Sequence[Message]]],
    cut: dict[tuple[int, int], tuple[int, int]],
    *,
    trimmed: dict[tuple[int, int], int] | None = None,
    how: str = Backfill.WINDOW,
    counts: dict[int, int] | None = None,
    seen_at: int | None = None,
    report: Callable[[Mapping[str, int], str], None] = lambda _refused, _why: None,
    **known: Any,
) -> Beginning:
    """`inputs` by stream and partition; `seen_at`: how many messages of each were there when they were looked at.

    known: more that the takeover knows of the inputs
    """
    log = MemoryLog[bytes]()
    topics = [f"in.{number}" for number in range(len(inputs))]
    for topic, partitions in zip(topics, inputs, strict=True):
        log.create_topics({topic: len(partitions)})
    history = backfill.InputHistory(log, topics, parse, report=report)
    write(log, topics, inputs, slice(seen_at or 0))
    seen = () if seen_at is None else backfill.seen_now(history, asked)
    write(log, topics, inputs, slice(seen_at or 0, None))
    for (stream, partition), before in (trimmed or {}).items():
        log.trim(LogPartition(topics[stream], partition), before)
    begun = Beginning(2, 7, cut, counts=tuple((counts or {}).get(stream, 0) for stream in range(len(inputs))), **known)
    return backfill.fill(history, asked, begun, how, seen)


def write(
    log: MemoryLog[bytes], topics: Sequence[str], inputs: Sequence[Sequence[Sequence[Message]]], which: slice
) -> None:
    writer = log.writer()
    for topic, partitions in zip(topics, inputs, strict=True):
        for partition, messages in enumerate(partitions):
            for each in messages[which]:
                promise = () if each.heartbeat_us is None else (("heartbeat", b"%d" % each.heartbeat_us),)
                row = orjson.dumps(each.rows)
                writer.append(LogPartition(topic, partition), row, promise, timestamp_ms=each.produced_ms)


# -- the brute force


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row by the fields that order it."""

    rank: int
    stream: int
    partition: int
    offset: int
    row: int

    @property
    def input(self) -> tuple[int, int]:
        return self.stream, self.partition

    @property
    def place(self) -> tuple[int, int]:
        return self.offset, self.row


def rows_of(inputs: Sequence[Sequence[Sequence[Message]]], asked: Query, first: dict) -> Iterator[Row]:
    """Rows from the positions `first` on that are neither refused nor late."""
    for stream, partitions in enumerate(inputs):
        for partition, messages in enumerate(partitions):
            highest = NEVER
            for offset, message in enumerate(messages):
                for row, time in enumerate(message.rows):
                    if time is None or (offset, row) < first[stream, partition]:
                        continue
                    if asked.order.by is Order.EVENT_TIME:
                        if time >= highest - asked.order.lateness_us:
                            yield Row(time, stream, partition, offset, row)
                        highest = max(highest, time)
                    else:
                        highest = max(highest, message.produced_ms)
                        yield Row(highest, stream, partition, offset, row)


def in_order(rows: list[Row], asked: Query, cut: dict) -> list[Row]:
    """By arrival, all rows before the cut precede all rows after it."""
    if asked.order.by is Order.EVENT_TIME:
        return sorted(rows)
    return sorted(rows, key=lambda each: (each.place >= cut[each.input], each))


def partners_of(asked: Query, order: list[Row], at: int) -> list[Row]:
    target = 0 if asked.is_self else 1 - order[at].stream
    window = asked.window_over(target)
    before = [row for row in order[:at] if row.stream == target]
    if window.needs_time:
        least = window_begin(order[at].rank, window.length, window.slide)
        return [row for row in before if row.rank >= least]
    return before[window_of(len(before), window.length, window.slide)]


def check(asked: Query, inputs, cut, trimmed, seen_at: int | None = None) -> None:
    earliest = {place: (trimmed.get(place, 0), 0) for place in cut}
    rows = list(rows_of(inputs, asked, earliest))
    counts = {stream: sum(row.place < cut[row.input] and row.stream == stream for row in rows) for stream in range(2)}
    begun = filled(asked, inputs, cut, trimmed=trimmed, counts=counts, seen_at=seen_at)
    order = in_order(rows, asked, cut)
    for at, row in enumerate(order):
        if row.place < cut[row.input]:
            continue
        for reached in partners_of(asked, order, at):
            start = begun.starts[reached.input]
            assert (start.offset, start.row) <= reached.place, f"{row} reaches {reached}; read from {start}"
    starts = {place: (at.offset, at.row) for place, at in begun.starts.items()}
    again = [row for row in rows_of(inputs, asked, starts) if row.place < cut[row.input]]
    for stream in range(len(asked.streams)):
        read = sum(row.stream == stream for row in again)
        assert begun.first_indexes[stream] == max(0, counts[stream] - read)


@st.composite
def partitions(draw: st.DrawFn, rows: int) -> list[Message]:
    """Times that rise in steps small enough for ties, none late, and messages of several rows."""
    sizes = draw(st.lists(st.integers(0, 3), max_size=rows))
    steps = draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes)))
    rise = accumulate(draw(st.lists(st.integers(0, 2), min_size=3 * rows, max_size=3 * rows)))
    back = draw(st.lists(st.integers(0, LATENESS), min_size=3 * rows, max_size=3 * rows))
    times = (20 + high - less for high, less in zip(rise, back, strict=True))
    refused = st.integers(0, 5).map(lambda number: number == 0)
    return [
        Message([None if draw(refused) else next(times) for _ in range(size)], produced)
        for size, produced in zip(sizes, accumulate(steps), strict=True)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> tuple:
    base = draw(st.sampled_from([SELF, CROSS]))
    inputs = [draw(st.lists(partitions(12), min_size=1, max_size=3)) for _ in base.streams]
    cut, trimmed = {}, {}
    for stream, held in enumerate(inputs):
        for partition, messages in enumerate(held):
            offset = draw(st.integers(0, len(messages)))
            rows = len(messages[offset].rows) if offset < len(messages) else 0
            cut[stream, partition] = (offset, draw(st.integers(0, max(0, rows - 1))))
            trimmed[stream, partition] = draw(st.sampled_from([0, 0, 0, min(2, offset)]))
    order = draw(st.sampled_from(Order))
    slide = draw(st.integers(1, 4))
    is_time = order is Order.EVENT_TIME and draw(st.booleans())
    window = (TimeWindow if is_time else RowWindow)(slide * draw(st.integers(1, 6)), slide)
    late = LATENESS if order is Order.EVENT_TIME else 0
    seen_at = draw(st.one_of(st.none(), st.integers(0, 12)))
    return replace(base, window=window, order=RowOrder(order, late)), inputs, cut, trimmed, seen_at


def look(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    monkeypatch.setattr(backfill, "LOOK_RECORDS", records)


@given(worlds())
def test_every_row_that_a_window_can_reach_is_read_again(world):
    with pytest.MonkeyPatch.context() as patch:
        look(patch, 1)
        check(*world)


def messages(*times: int, produced_ms: int = 5) -> list[Message]:
    return [Message([time], produced_ms) for time in times]


BY_TIME = replace(SELF, order=RowOrder(Order.EVENT_TIME))
TIES = {
    "rows produced at once": (
        replace(SELF, window=RowWindow(6, 1)),
        [messages(*range(8)), messages(*range(8), 9)],
        [(8, 0), (8, 0)],
    ),
    "rows at a window's very begin": (
        replace(BY_TIME, window=TimeWindow(2, 1)),
        [messages(*[10] * 8, 12, 12)],
        [(9, 0)],
    ),
    "a row behind the cut before rows of its own time": (
        replace(BY_TIME, window=RowWindow(3, 1)),
        [messages(10, 10), messages(1, 2, 3, 4, 10, 10, 10, 10)],
        [(1, 0), (8, 0)],
    ),
}


@pytest.mark.parametrize("name", TIES)
def test_all_accepted_rows_of_equal_rank_are_read_again(name, monkeypatch):
    look(monkeypatch, 4)
    asked, held, cuts = TIES[name]
    cut = {(0, partition): place for partition, place in enumerate(cuts)}
    check(asked, [held], cut, {})


def test_late_rows_fill_no_window_and_take_no_seq(monkeypatch):
    look(monkeypatch, 4)
    asked = replace(BY_TIME, window=RowWindow(4, 1))
    held = messages(*range(100, 108), 3, 108, 4, 5, 109, 6, 110)
    check(asked, [[held]], {(0, 0): (14, 0)}, {})


def test_only_as_much_as_needed_is_read_again(monkeypatch):
    look(monkeypatch, 4)
    held = [Message([time], time) for time in range(1_000)]
    asked = replace(SELF, window=RowWindow(10, 1))
    begun = filled(asked, [[held]], {(0, 0): (900, 0)}, counts={0: 900})
    (start,) = begun.starts.values()
    assert start.offset == 900 - (10 + 1)
    assert begun.first_indexes == (start.offset,)


def test_what_was_seen_before_the_takeover_is_read_once(monkeypatch):
    look(monkeypatch, 4)
    read: list[int] = []
    between = backfill.rows_between

    def spied(reader: object, parsing: object, past: backfill.Past, first: int, end: int) -> object:
        read.extend(range(first, end))
        return between(reader, parsing, past, first, end)

    monkeypatch.setattr(backfill, "rows_between", spied)
    held = [Message([time], time) for time in range(1_000)]
    asked = replace(SELF, window=RowWindow(10, 1))
    begun = filled(asked, [[held]], {(0, 0): (900, 0)}, counts={0: 900}, seen_at=895)
    assert begun == filled(asked, [[held]], {(0, 0): (900, 0)}, counts={0: 900})
    read.clear()
    filled(asked, [[held]], {(0, 0): (900, 0)}, counts={0: 900}, seen_at=895)
    assert len(read) == len(set(read))


@pytest.mark.parametrize(
    ("other", "known", "start"),
    [
        ([], {}, 0),
        ([Message([], 1), Message([], 2, 950), Message([], 3)], {}, 940),
        ([], {"highs": {(0, 0): 999, (0, 1): NEVER}}, 989),
    ],
    ids=["no row yet", "only heartbeats", "the same order"],
)
def test_by_event_time_the_first_row_of_an_input_may_come_from_any_time_unless_more_is_known(
    other, known, start, monkeypatch
):
    look(monkeypatch, 4)
    asked, cut = replace(BY_TIME, window=TimeWindow(10, 1)), {(0, 0): (1_000, 0), (0, 1): (len(other), 0)}
    begun = filled(asked, [[messages(*range(1_000)), other]], cut, **known)
    assert begun.starts[0, 0].offset == start


@pytest.mark.parametrize("how", [Backfill.NONE, Backfill.WINDOW])
def test_a_cut_may_fall_within_a_message(how):
    held = [Message([1, 2, 3], 1), Message([4, None, 6], 2)]
    begun = filled(SELF, [[held]], {(0, 0): (1, 2)}, how=how, counts={0: 40})
    (start,) = begun.starts.values()
    assert (start.offset, start.row) == ((1, 2) if how is Backfill.NONE else (0, 0))
    assert begun.first_indexes == (40 if how is Backfill.NONE else 36,)


@pytest.mark.parametrize(
    ("window", "cut", "seen_at", "reported"), [(10, 41, 35, [({"in.0/0": 3}, "no time")]), (2, 40, 0, [])]
)
def test_rows_are_reported_that_windows_lack_because_the_query_refuses_them(window, cut, seen_at, reported):
    held = [Message([time if time % 5 else None], time) for time in range(50)]
    found: list[tuple[Mapping[str, int], str]] = []
    asked, counts = replace(SELF, window=RowWindow(window, 1)), {0: cut * 4 // 5}
    filled(asked, [[held]], {(0, 0): (cut, 0)}, counts=counts, seen_at=seen_at, report=lambda *said: found.append(said))
    assert found == reported


def test_from_the_earliest_all_retained_rows_are_read_and_numbered_from_0():
    held = [Message([time], time) for time in range(50)]
    begun = filled(SELF, [[held]], {(0, 0): (40, 0)}, how=Backfill.EARLIEST, trimmed={(0, 0): 7}, counts={0: 40})
    assert [(at.offset, at.row) for at in begun.starts.values()] == [(7, 0)]
    assert begun.first_indexes == (0,)


def test_rows_lost_to_retention_are_not_read_and_seqs_continue():
    held = [Message([time], time) for time in range(50)]
    asked = replace(SELF, window=RowWindow(30, 1))
    begun = filled(asked, [[held]], {(0, 0): (40, 0)}, trimmed={(0, 0): 25}, counts={0: 40})
    assert [(at.offset, at.row) for at in begun.starts.values()] == [(25, 0)]
    assert begun.first_indexes == (25,)


def test_an_input_trimmed_beyond_the_cut_begins_at_the_cut():
    held = [Message([time], time) for time in range(50)]
    begun = filled(SELF, [[held]], {(0, 0): (10, 0)}, trimmed={(0, 0): 25}, counts={0: 10})
    assert [(at.offset, at.row) for at in begun.starts.values()] == [(10, 0)]
    assert begun.first_indexes == (10,)
