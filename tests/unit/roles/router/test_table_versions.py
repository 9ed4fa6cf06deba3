"""A table's versions on their way into the log, over crashes at any frame; a compacted topic as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import START, Action, Emit, ResultPosition, TableRows
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.reading.parse import parse_messages
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.router.table_topic import CompactedTable
from spojoin.roles.router.table_versions import TableVersion
from spojoin.wire.records import Barrier, DeadLetter, Frame, Rows
from tests.support.long import first_of

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}}}
tables: {t: {topic: tiers, schema: {b: long}, refresh: 5 s}}
sql: SELECT l.a, r.b FROM s AS l LEFT JOIN t AS r ON l.a < r.b
""")


def config(name: str, **sizes: int) -> RouterConfig:
    defaults = {"frame_tuples": 4, "batch_tuples": 8, "batch_frames": 99, "linger_ms": 0, "credits_frames": 99}
    return RouterConfig(router_id=name, **{**defaults, **sizes})


def rows(first: int, codes: Sequence[int], dead: Iterable[DeadLetter] = ()) -> Rows:
    offsets = np.arange(first, first + len(codes), dtype=np.int64)
    nothing = np.zeros(len(codes), np.int64)
    values = np.array(codes, np.int64)
    payload = pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])
    return Rows(
        offsets, nothing, first + len(codes), (values,), None, pa.array(offsets), nothing, list(dead), payload=payload
    )


def version(codes: Sequence[int], content: int, dead: Sequence[DeadLetter] = (), read: int = 0) -> TableRows:
    found = rows(0, codes, dead)
    found.payload = pa.RecordBatch.from_arrays([pa.array(codes, pa.int64())], names=["b"])
    return TableRows(found, content, {0: read})


class Stage:
    """A router and the log that it writes; as many of its records land as are let, and then it is lost."""

    def __init__(self, name: str, log: Sequence[Frame | Barrier] = (), **sizes: int) -> None:
        self.router = RouterMachine(QUERY, START, config(name, **sizes))
        self.log: list[Frame | Barrier] = []
        self.letters: list[DeadLetter] = []
        self.now_ms = 0
        for record in log:
            self._read(record)
        self.do(self.router.on_caught_up())
        self.do(self.router.on_chosen())
        self.router.on_inputs([(0, 0)])

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            assert isinstance(action, Emit)
            if action.topic is Topic.FRAMES:
                self._read(action.record)
            else:
                self.letters.append(action.record)

    def _read(self, record: Frame | Barrier) -> None:
        self.log.append(record)
        list(self.router.on_record(Topic.FRAMES, 0, len(self.log), record))

    def load(self, codes: Sequence[int], content: int, **given: object) -> None:
        self.do(self.router.on_table(version(codes, content, **given)))
        self.settle()

    def feed(self, codes: Sequence[int]) -> None:
        place = self.router.sources().get((0, 0))
        self.do(self.router.on_rows(0, 0, rows(0 if place is None else place.offset, codes)))
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            self.now_ms += 100
            self.do(self.router.on_time(self.now_ms))
            frames = [record.frame_id for record in self.log if isinstance(record, Frame)]
            self.router.on_result_position(ResultPosition(max(frames, default=-1) + 1, 0))


def answered(log: Iterable[Frame | Barrier]) -> list[tuple[int, list[int]]]:
    """Each left row that a log answers, by its code, with the codes of all right rows in its window."""
    follower, right, found = LogFollower(), [], []
    for record in log:
        if not follower.accept(record) or isinstance(record, Barrier):
            continue
        left, table = record.slices
        assert not (len(left) and len(table)), "a frame holds rows of the table or of the stream"
        (closing,) = record.closings
        lower = np.broadcast_to(closing.lower, len(closing.codes[0])) if len(closing.codes[0]) else ()
        found += [
            (int(code), right[int(first) : table.first_index])
            for code, first in zip(closing.codes[0], lower, strict=True)
        ]
        right += table.codes[0].tolist()
    return found


def test_no_row_is_wanted_before_the_table():
    stage = Stage("a")
    assert not stage.router.wants_rows(0, 0)
    stage.load([], 1)
    assert stage.router.wants_rows(0, 0)
    stage.feed([5])
    assert answered(stage.log) == [(5, [])]


def test_rows_are_answered_about_the_version_before_them():
    stage = Stage("a")
    stage.load([1, 2, 3, 4, 5, 6], 1)
    stage.feed([10, 11])
    stage.load([7], 2)
    stage.feed([12])
    stage.load([], 3)
    stage.feed([13])
    whole = [1, 2, 3, 4, 5, 6]
    assert answered(stage.log) == [(10, whole), (11, whole), (12, [7]), (13, [])]


def test_the_last_batch_of_a_version_is_sealed():
    stage = Stage("a")
    stage.load([1, 2, 3, 4, 5], 1)
    pieces = [record.slices[1] for record in stage.log if isinstance(record, Frame)]
    assert [(len(piece), piece.seals) for piece in pieces if len(piece)] == [(4, False), (1, True)]
    assert {piece.group for piece in pieces if piece.seals} == {0}


def test_the_same_version_is_not_written_again():
    first = Stage("a")
    first.load([1, 2], 7)
    second = Stage("b", first.log)
    written = len(second.log)
    second.load([1, 2], 7)
    assert len(second.log) == written
    second.feed([5])
    assert answered(second.log) == [(5, [1, 2])]


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_version_that_is_in_the_log_in_part_is_never_seen(kept):
    first = Stage("a")
    first.load([1, 2], 1)
    first.feed([10])
    first.load(list(range(3, 16)), 2)
    second = Stage("b", first.log[:kept])
    assert not second.router.wants_rows(0, 0)
    second.load([20, 21], 3)
    second.feed([11])
    assert answered(second.log)[-1] == (11, [20, 21])


@pytest.mark.parametrize("kept", range(1, 12))
def test_after_a_version_in_part_the_one_before_is_written_anew(kept):
    first = Stage("a")
    first.load([1, 2], 1)
    first.load(list(range(3, 16)), 2)
    second = Stage("b", first.log[:kept])
    second.load([1, 2], 1)
    second.feed([11])
    assert answered(second.log) == [(11, [1, 2])]


@pytest.mark.parametrize("seed", first_of(20, range(60)))
def test_versions_and_rows_over_routers_that_are_lost(seed):
    rng = Random(seed)
    log: list[Frame | Barrier] = []
    table, content, fed = [], 0, 0
    for life in range(8):
        stage = Stage(f"router {life}", log, frame_tuples=rng.choice((1, 3, 8)))
        expected = answered(stage.log)
        if rng.random() < 0.5 or not content:
            table, content = [rng.randrange(9) for _ in range(rng.choice((0, 1, 5, 30)))], content + 1
        stage.load(table, content)
        for _ in range(rng.randrange(4)):
            if rng.random() < 0.3:
                table, content = [rng.randrange(9) for _ in range(rng.choice((0, 1, 5, 30)))], content + 1
                stage.load(table, content)
            codes = [rng.randrange(9) for _ in range(rng.randrange(1, 6))]
            stage.feed(codes)
            fed += len(codes)
            expected += [(code, table) for code in codes]
        assert answered(stage.log) == expected
        log = stage.log[: rng.randrange(len(stage.log) // 2, len(stage.log) + 1)]
    assert fed


def test_a_table_that_a_filter_thins_out_is_whole():
    stage = Stage("a")
    found = version([1, 2, 3], 1)
    found.rows.members = found.rows.joins = np.array([2, 0, 2], np.uint8)
    stage.do(stage.router.on_table(found))
    stage.settle()
    stage.feed([5])
    assert answered(stage.log) == [(5, [1, 3])]
    last = TableVersion.from_checkpoint([record for record in stage.log if isinstance(record, Frame)][-1].checkpoint)
    assert last == TableVersion(0, 2, 1, ((0, 0),))


def test_a_version_says_how_far_its_topic_was_read_though_a_later_one_waits():
    stage = Stage("a", credits_frames=1)
    stage.do(stage.router.on_table(version([1, 2], 1, read=5)))
    stage.do(stage.router.on_table(version([3], 2, read=8)))
    stage.settle()
    stage.settle()
    named = [TableVersion.from_checkpoint(record.checkpoint) for record in stage.log if isinstance(record, Frame)]
    assert named == [TableVersion(0, 2, 1, ((0, 5),)), TableVersion(2, 3, 2, ((0, 8),))]


def test_a_version_of_an_older_log_doesnt_say_how_far_it_was_read():
    written = TableVersion(3, 7, 2**64 - 1, ((0, 5), (2, 9)))
    assert TableVersion.from_checkpoint(written.encoded()) == written
    assert TableVersion.from_checkpoint(written.encoded()[:24]) == TableVersion(3, 7, 2**64 - 1)


# -- dead letters


def letter(offset: int) -> DeadLetter:
    return DeadLetter(1, 0, offset, 0, "type", "", b"")


def test_a_dead_letter_is_written_and_counted_once():
    first = Stage("a")
    first.load([1], 1, dead=[letter(3)], read=5)
    assert first.letters == [letter(3)]
    second = Stage("b", first.log)
    second.load([1], 1, dead=[letter(3), letter(6)], read=8)
    assert second.letters == [letter(6)]
    frames = [record for record in second.log if isinstance(record, Frame)]
    assert frames[-1].rejected == {"type": 2}
    assert frames[-1].source[1, 0].offset == 8


# -- a compacted topic


class Keyed(NamedTuple):
    """A message with a key."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[()] = ()


def compacted() -> CompactedTable:
    stream = QUERY.inputs[1]
    return CompactedTable(
        QUERY, lambda number, partition, messages: parse_messages(stream, False, number, partition, messages)
    )


def values(found: TableRows) -> list[int]:
    return found.rows.payload.column("b").to_pylist()


def test_the_last_message_of_a_key_counts():
    table = compacted()
    table.add_messages(0, [Keyed(0, b"x", b'{"b": 1}'), Keyed(1, b"y", b'{"b": 2}'), Keyed(3, b"x", b'{"b": 3}')])
    assert values(table.version()) == [2, 3]
    table.add_messages(0, [Keyed(4, b"y", b'{"b": 4}')])
    table.add_messages(1, [Keyed(0, b"x", b'{"b": 5}')])
    assert values(table.version()) == [3, 4, 5]


def test_a_tombstone_takes_its_key_away():
    table = compacted()
    table.add_messages(0, [Keyed(0, b"x", b'{"b": 1}'), Keyed(1, b"y", b'{"b": 2}')])
    table.add_messages(0, [Keyed(2, b"x", None)])
    found = table.version()
    assert (values(found), found.rows.dead) == ([2], [])
    table.add_messages(0, [Keyed(3, b"y", b"")])
    assert values(table.version()) == []


def test_a_message_that_cant_be_read_takes_its_key_away_and_is_a_dead_letter():
    table = compacted()
    table.add_messages(0, [Keyed(0, b"x", b'{"b": 1}'), Keyed(1, b"x", b'{"b": "?"}'), Keyed(2, None, b'{"b": 2}')])
    found = table.version()
    assert values(found) == []
    assert [(each.offset, each.reason) for each in found.rows.dead] == [(1, "type"), (2, "no-key")]
    assert "b: value '?' is not a long" in found.rows.dead[0].detail.replace("field ", "")


def test_what_compaction_removed_makes_no_other_version():
    messages = [
        Keyed(0, b"x", b'{"b": 1}'),
        Keyed(1, b"y", b'{"b": 2}'),
        Keyed(2, b"x", b'{"b": 3}'),
        Keyed(3, b"z", b'{"b": 4}'),
        Keyed(4, b"z", None),
    ]
    whole, rest, other = compacted(), compacted(), compacted()
    whole.add_messages(0, messages)
    rest.add_messages(0, messages[1:3])
    other.add_messages(0, [messages[1], Keyed(2, b"x", b'{"b": 9}')])
    found = whole.version()
    assert found.content == rest.version().content != other.version().content
    assert values(found) == [2, 3]


@pytest.mark.parametrize("seed", first_of(15, range(40)))
def test_a_topic_in_any_pieces_is_a_dictionary(seed):
    rng = Random(seed)
    table, expected, messages = compacted(), {}, []
    for offset in range(rng.randrange(60)):
        key = rng.choice("abcd")
        value = rng.choice((None, rng.randrange(5)))
        messages.append(Keyed(offset, key.encode(), None if value is None else b'{"b": %d}' % value))
        expected.pop(key, None)
        if value is not None:
            expected[key] = value
    while messages:
        size = rng.randrange(1, 9)
        table.add_messages(0, messages[:size])
        del messages[:size]
        if rng.random() < 0.3:
            table.version()
    assert values(table.version()) == list(expected.values()) if expected else not values(table.version())
