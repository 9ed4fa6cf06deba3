"""Where a generation began: told exactly, or refused with the row that says why."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pytest

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.answered import PassedOrder
from spojoin.protocol.generations import Generations
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.backfill import InputHistory
from spojoin.runtime.generation_start import GenerationStart, find_generation_start
from spojoin.wire.records import Announcement, Rows, SourcePosition, Takeover

NEVER = -(2**63)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TEXT = """
name: q
streams: {a: {schema: {x: double}, time: t, key: id}}
sql: SELECT * FROM a AS l JOIN a AS r ON l.x > r.x WINDOW AS (SLIDE INTERVAL '1' ON 'LENGTH')
order: ORDER
"""


def query(length: int, order: str) -> Query:
    return parse_query(TEXT.replace("LENGTH", str(length)).replace("ORDER", order))


def parse(stream: int, partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
    """A message is a list of [key, time in us]."""
    found = [(r, row, *each) for r in records for row, each in enumerate(orjson.loads(r.value))]
    return Rows(
        offsets=np.array([r.offset for r, *_ in found], np.int64),
        rows=np.array([row for _, row, *_ in found], np.int64),
        next_offset=records[-1].offset + 1,
        codes=(),
        times_us=np.array([time for *_, time in found], np.int64),
        keys=pa.array([key for _, _, key, _ in found], pa.int64()),
        produced_ms=np.zeros(len(found), np.int64),
    )


def generations(old: Query, new: Query, takeover: Takeover | None, backfill: str = "window") -> Generations:
    found = Generations()
    found.accept_record(Announcement(1, fingerprint(old), old.text, "window"))
    if takeover is not None:
        found.accept_record(Announcement(2, fingerprint(new), new.text, backfill))
        found.accept_record(takeover)
    return found


def asked(
    partitions: Sequence[Sequence[list[list[int | None]]]],
    cut: dict[int, tuple[int, int, int]],
    order: str,
    *,
    passed: PassedOrder | None = None,
    before: str | None = None,
    backfill: str = "window",
) -> GenerationStart:
    """cut: by partition offset, row and the largest event time before it; before: the order of the old query."""
    log = MemoryLog[bytes]()
    log.create_topics({"in.a": len(partitions)})
    writer = log.writer()
    for number, messages in enumerate(partitions):
        for message in messages:
            writer.append(LogPartition("in.a", number), orjson.dumps(message))
    writer.flush(1.0)
    old, new = query(10, before or order), query(20, order)
    source = {(0, number): SourcePosition(*place) for number, place in cut.items()}
    saved = b"" if passed is None else orjson.dumps([passed.saved()])
    takeover = Takeover(2, 1, source, (5,), {}, saved)
    return find_generation_start(InputHistory(log, ["in.a"], parse), new, generations(old, new, takeover, backfill), {})


def passed(time_us: int, place: tuple[int, int, int, int], reads: dict[int, tuple[int, int]]) -> PassedOrder:
    return PassedOrder((time_us, *place), {(0, number): place for number, place in reads.items()}, frozenset())


# -- by arrival


@pytest.mark.parametrize(
    ("cut", "until"),
    [((1, 0, NEVER), 30), ((1, 1, NEVER), 40), ((0, 1, NEVER), 20), ((2, 0, NEVER), 50), ((3, 0, NEVER), 51)],
)
def test_by_arrival_it_is_the_first_row_behind_the_cut(cut: tuple[int, int, int], until: int) -> None:
    messages = [[[10, 0], [20, 0]], [[30, 0], [40, 0]], [[50, 0]]]
    assert asked([messages], {0: cut}, "arrival") == GenerationStart(2, until)


def test_a_row_without_a_number_is_passed_over() -> None:
    assert asked([[[[1, 0]], [[None, 0]], [[7, 0]]]], {0: (1, 0, NEVER)}, "arrival") == GenerationStart(2, 7)


@pytest.mark.parametrize(
    ("partitions", "cut", "sentence"),
    [
        ([[[[1, 0]]], [[[2, 0]]]], {0: (1, 0, NEVER), 1: (0, 0, NEVER)}, "reads 2 partitions in the order of arrival"),
        ([[[[5, 0]], [[4, 0]]]], {0: (1, 0, NEVER)}, "began has number 5, one behind it 4, so that the order column"),
        ([[]], {0: (0, 0, NEVER)}, "holds no usable row at offset 0"),
    ],
)
def test_by_arrival_what_cannot_be_told_is_said(partitions, cut, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        asked(partitions, cut, "arrival")


def test_from_event_time_to_arrival_the_cut_tells_it() -> None:
    assert asked([[[[1, 9]], [[2, 8]]]], {0: (1, 0, 9)}, "arrival", before="event_time") == GenerationStart(2, 2)


# -- by event time


def test_by_event_time_it_is_the_moment_behind_the_frontier() -> None:
    partitions = [[[[1, 100]], [[3, 300]], [[5, 500]]], [[[2, 200]], [[4, 400]], [[6, 600]]]]
    frontier = passed(300, (0, 0, 1, 0), {0: (3, 0), 1: (2, 0)})
    found = asked(partitions, {0: (2, 0, 300), 1: (1, 0, 200)}, "event_time", passed=frontier)
    assert found == GenerationStart(2, EPOCH + dt.timedelta(microseconds=301))


def test_a_row_behind_the_frontier_at_its_time_leaves_no_time_between_them() -> None:
    partitions = [[[[1, 100]], [[3, 300]], [[5, 500]]], [[[2, 200]], [[4, 300]], [[6, 600]]]]
    frontier = passed(300, (0, 0, 1, 0), {0: (3, 0), 1: (2, 0)})
    with pytest.raises(ConfigurationError, match="partition 1, offset 1: this generation answers a row no later"):
        asked(partitions, {0: (2, 0, 300), 1: (1, 0, 200)}, "event_time", passed=frontier)


def test_a_row_of_that_time_that_earlier_generations_answered_is_no_hindrance() -> None:
    partitions = [[[[1, 100]], [[3, 300]], [[5, 500]]], [[[2, 200]], [[4, 300]], [[6, 600]]]]
    frontier = passed(300, (0, 1, 1, 0), {0: (3, 0), 1: (2, 0)})
    found = asked(partitions, {0: (2, 0, 300), 1: (2, 0, 300)}, "event_time", passed=frontier)
    assert found.until == EPOCH + dt.timedelta(microseconds=301)


def test_a_row_that_the_new_query_refuses_as_late_is_no_hindrance() -> None:
    partitions = [[[[1, 100]], [[3, 300]], [[9, 250]], [[5, 500]]]]
    found = asked(partitions, {0: (2, 0, 300)}, "event_time", passed=passed(300, (0, 0, 1, 0), {0: (2, 0)}))
    assert found.until == EPOCH + dt.timedelta(microseconds=301)


def test_while_a_row_of_that_time_may_still_come_it_is_not_told() -> None:
    frontier = passed(300, (0, 0, 1, 0), {0: (2, 0)})
    with pytest.raises(ConfigurationError, match="no row has come yet behind which one of 1970"):
        asked([[[[1, 100]], [[3, 300]]]], {0: (2, 0, 300)}, "event_time", passed=frontier)


def test_after_another_order_no_event_time_divides_the_rows() -> None:
    with pytest.raises(ConfigurationError, match="the generation before 2 had another order"):
        asked([[[[1, 100]], [[3, 300]]]], {0: (1, 0, NEVER)}, "event_time", before="arrival")


# -- who answers


def test_windows_that_were_left_empty_are_said() -> None:
    with pytest.raises(ConfigurationError, match="began with empty windows \\(backfill: none\\)"):
        asked([[[[1, 0]]]], {0: (0, 0, NEVER)}, "arrival", backfill="none")


def test_a_query_that_replaced_none_or_isnt_served_is_said() -> None:
    old, new = query(10, "arrival"), query(20, "arrival")
    history = InputHistory(MemoryLog[bytes](), ["in.a"], parse)
    for asked_for, found, sentence in (
        (old, generations(old, new, None), "has replaced no other"),
        (new, generations(old, new, None), "isn't the one that is served, generation 1: "),
        (new, Generations(), "no generation of it was announced"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            find_generation_start(history, asked_for, found, {})
    waiting = generations(old, new, None)
    waiting.accept_record(Announcement(2, fingerprint(new), new.text, "window"))
    with pytest.raises(ConfigurationError, match="generation 2 hasn't begun yet"):
        find_generation_start(history, new, waiting, {})
