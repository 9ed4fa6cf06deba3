"""Whom event time waits for (P18): every input, unless the query has an idle timeout, in the time of records."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np
import orjson
import pyarrow as pa
import pytest

from spojoin.protocol.machine import START, Emit, Holder
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.event_time_order import EventTimeOrder
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import DeadLetter, Frame, Rows

QUERY = parse_query("""
name: q
streams:
  orders: {schema: {a: long, at: timestamp}, time: at}
  views: {schema: {a: long, at: timestamp}, time: at}
sql: SELECT l.a, r.a AS b FROM orders AS l JOIN views AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '20')
order: event_time
""")
IDLE_MS = 5_000
IMPATIENT = replace(QUERY, order=replace(QUERY.order, idle_timeout_us=IDLE_MS * 1_000))
ORDERS, VIEWS = (0, 0), (1, 0)
NOTHING = np.empty(0, np.int64)


def rows(
    first: int, times_us, record_ms: int | None = None, heartbeat_us: int | None = None, messages: int = 0
) -> Rows:
    """One row a message, from an offset on; of `messages` without rows only the places."""
    times = np.array(list(times_us), np.int64)
    offsets = np.arange(first, first + len(times), dtype=np.int64)
    return Rows(
        offsets,
        np.zeros_like(offsets),
        first + len(times) + messages,
        (times,),
        times,
        pa.array(times),
        np.zeros_like(offsets),
        heartbeat_us=heartbeat_us,
        latest_ms=record_ms,
    )


class Routed:
    """A router over inputs, and what it wrote."""

    def __init__(self, query=QUERY, log=(), inputs=(ORDERS, VIEWS)) -> None:
        config = RouterConfig(
            f"router {len(log)}", workers_max=1, frame_tuples=4, batch_tuples=8, linger_ms=0, credits_frames=1 << 20
        )
        self.router = RouterMachine(query, START, config)
        self.log, self.letters, self.now_ms = [], [], 0
        for record in log:
            self._take(record)
        self.do(self.router.on_caught_up())
        self.do(self.router.on_chosen())
        self.router.on_inputs(list(inputs))

    def do(self, actions) -> None:
        for action in list(actions):
            assert isinstance(action, Emit)
            if action.topic is Topic.FRAMES:
                self._take(action.record)
            elif isinstance(action.record, DeadLetter):
                self.letters.append(action.record)

    def _take(self, record) -> None:
        self.log.append(record)
        self.do(self.router.on_record(Topic.FRAMES, 0, len(self.log), record))

    def give(self, source, given: Rows) -> None:
        self.do(self.router.on_rows(*source, given))

    def tick(self) -> None:
        self.now_ms += 1_000_000
        self.do(self.router.on_time(self.now_ms))

    def times(self) -> list[int]:
        """The rows taken, by their event times, in order."""
        found = {}
        for frame in self.log:
            if isinstance(frame, Frame):
                for piece in frame.slices:
                    seqs = frame.first_seq + piece.positions.astype(np.int64)
                    found |= dict(zip(seqs.tolist(), piece.keys.to_pylist(), strict=True))
        return [found[seq] for seq in sorted(found)]


def test_an_input_that_is_silent_or_has_no_row_yet_is_waited_for():
    routed = Routed()
    routed.give(ORDERS, rows(0, [1, 5, 9]))
    for source in (ORDERS, VIEWS):
        routed.router.on_input_end(*source)
    routed.tick()
    assert routed.times() == []
    routed.give(VIEWS, rows(0, [4]))
    routed.router.on_input_end(*VIEWS)
    routed.tick()
    assert routed.times() == [1, 4]
    routed.give(VIEWS, rows(1, [6]))
    routed.tick()
    assert (routed.times(), routed.letters) == ([1, 4, 5, 6], [])


def test_an_input_whose_topic_is_not_there_is_waited_for():
    routed = Routed(inputs=[ORDERS])
    routed.give(ORDERS, rows(0, [1, 5], heartbeat_us=100))
    routed.tick()
    assert routed.times() == []
    routed.router.on_inputs([ORDERS, VIEWS])
    routed.give(VIEWS, rows(0, [3]))
    routed.tick()
    assert routed.times() == [1, 3]


def test_a_promise_outlives_the_router_that_read_it():
    routed = Routed()
    routed.give(ORDERS, rows(0, [1, 5], heartbeat_us=100, messages=1))
    routed.give(VIEWS, rows(0, [4, 8]))
    routed.tick()
    assert routed.times() == [1, 4, 5, 8]
    again = Routed(log=routed.log)
    again.give(VIEWS, rows(2, [50]))
    again.tick()
    assert again.times()[-1] == 50


def test_a_promise_is_not_taken_for_one_about_rows_that_are_read_again():
    routed = Routed()
    routed.give(ORDERS, rows(0, [1, 5, 20], heartbeat_us=100, messages=1))
    routed.give(VIEWS, rows(0, [6]))
    routed.tick()
    assert routed.times() == [1, 5, 6]
    again = Routed(log=routed.log)
    again.give(VIEWS, rows(1, [30]))
    again.tick()
    assert again.times() == [1, 5, 6], "20 is still to be read"
    again.give(ORDERS, rows(2, [20], heartbeat_us=100, messages=1))
    again.tick()
    assert (again.times(), again.letters) == ([1, 5, 6, 20, 30], [])


def restarted_twice() -> Routed:
    """A row has left its input out of order; the router that starts next writes a frame before it reads that again."""
    inputs = [ORDERS, VIEWS, (1, 1)]
    lenient = replace(QUERY, order=replace(QUERY.order, lateness_us=5))
    routed = Routed(lenient, inputs=inputs)
    for source in inputs[1:]:
        routed.give(source, rows(0, [], heartbeat_us=7, messages=1))
    routed.give(ORDERS, rows(0, [10, 6], heartbeat_us=7))
    routed.tick()
    assert routed.times() == [6]
    again = Routed(lenient, log=routed.log, inputs=inputs)
    again.give((1, 1), rows(1, [], heartbeat_us=7, messages=1))
    again.tick()
    assert len(again.log) > len(routed.log) + 1, "a frame noted the heartbeat"
    third = Routed(lenient, log=again.log, inputs=inputs)
    third.give(ORDERS, rows(0, [10, 6], heartbeat_us=7))
    for source in inputs:
        third.give(source, rows(2, [], heartbeat_us=20, messages=1))
    third.tick()
    return third


def test_what_was_read_before_a_restart_is_known_after_the_next_one():
    third = restarted_twice()
    assert (third.times(), third.letters) == ([6, 10], [])


def test_forgotten_reads_refuse_a_row_that_is_out():
    with patch.object(EventTimeOrder, "checkpoint", forgetful(EventTimeOrder.checkpoint)):
        assert [letter.offset for letter in restarted_twice().letters] == [1]


def forgetful(checkpoint):
    """A checkpoint that names only what this router has read itself."""

    def only_own(order):
        known = orjson.loads(checkpoint(order))
        known["read"] = [[*source.key, *source.ledger.read_end()] for source in order._inputs]
        return orjson.dumps(known)

    return only_own


def test_an_input_is_idle_by_the_time_of_records_and_its_late_rows_say_so():
    routed = Routed(IMPATIENT)
    routed.give(ORDERS, rows(0, [1], record_ms=1_000))
    routed.give(VIEWS, rows(0, [4, 8], record_ms=1_000 + IDLE_MS - 1))
    assert not routed.router.doubts_end(*ORDERS)
    routed.router.on_input_end(*ORDERS)
    routed.tick()
    assert routed.times() == [1]
    routed.give(VIEWS, rows(2, [1_772_476_673_078_098], record_ms=1_000 + IDLE_MS))
    routed.tick()
    assert routed.router.doubts_end(*ORDERS)
    assert routed.times() == [1], "nobody has looked whether the input holds more"
    routed.router.on_input_end(*ORDERS)
    routed.tick()
    assert routed.times() == [1, 4, 8, 1_772_476_673_078_098]
    routed.give(ORDERS, rows(1, [7], record_ms=2_000 + IDLE_MS))
    routed.tick()
    assert [letter.detail for letter in routed.letters] == [
        "event time 1970-01-01T00:00:00.000007Z: the input was idle for 5 s (idle_timeout), and all inputs were merged "
        "up to 2026-03-02T18:37:53.078098Z"
    ]


def test_where_all_inputs_are_silent_event_time_stands_still():
    routed = Routed(IMPATIENT)
    routed.give(ORDERS, rows(0, [1], record_ms=1_000))
    routed.give(VIEWS, rows(0, [4], record_ms=1_001))
    for source in (ORDERS, VIEWS, ORDERS, VIEWS):
        routed.router.on_input_end(*source)
        routed.tick()
    assert routed.times() == [1]


def test_a_row_behind_a_promise_says_so():
    routed = Routed()
    routed.give(ORDERS, rows(0, [], heartbeat_us=10_000_000, messages=1))
    routed.give(VIEWS, rows(0, [9_000_000]))
    routed.give(ORDERS, rows(1, [8_000_000]))
    routed.tick()
    assert [letter.detail for letter in routed.letters] == [
        "event time 1970-01-01T00:00:08Z: a heartbeat of its input had promised nothing before 1970-01-01T00:00:10Z, "
        "and all inputs were merged up to 1970-01-01T00:00:09Z"
    ]


def test_a_late_row_comes_with_its_message():
    routed = Routed()
    given = rows(5, [9_000_000, 8_000_000])
    given.as_it_came = lambda offset, row: (b"%d.%d" % (offset, row), b"k%d" % offset)
    routed.give(ORDERS, given)
    routed.give(VIEWS, rows(0, [9_000_001]))
    routed.tick()
    assert [(letter.offset, letter.value, letter.key) for letter in routed.letters] == [(6, b"6.0", b"k6")]


def test_the_input_that_holds_event_time_is_named():
    routed = Routed(inputs=[ORDERS])
    assert routed.router.holder() is None
    routed.give(ORDERS, rows(0, [1_000_000, 5_000_000]))
    assert routed.router.holder() == Holder(1, None, 0, None, 2)
    routed.router.on_inputs([ORDERS, VIEWS, (1, 1)])
    assert routed.router.holder() == Holder(1, 0, 2, None, 2)
    routed.give(VIEWS, rows(0, [2_000_000]))
    assert routed.router.holder() == Holder(1, 1, 2, None, 3)
    routed.give((1, 1), rows(0, [3_000_000]))
    routed.tick()
    assert routed.router.holder() == Holder(1, 0, 2, 2_000_000, 2)
    for source in (VIEWS, (1, 1)):
        routed.give(source, rows(1, [], heartbeat_us=6_000_000, messages=1))
    routed.tick()
    assert (routed.router.holder(), routed.times()) == (None, [1_000_000, 2_000_000, 3_000_000, 5_000_000])


def test_lateness_is_said_in_words():
    routed = Routed()
    routed.give(ORDERS, rows(0, [9_000_000, 8_000_000]))
    assert not routed.letters
    routed.give(VIEWS, rows(0, [9_000_001]))
    routed.tick()
    assert [letter.detail for letter in routed.letters] == [
        "event time 1970-01-01T00:00:08Z came after 1970-01-01T00:00:09Z in its input; the stated lateness is 0 s"
    ]


# -- any interleaving of what is written and read


@dataclass
class Broker:
    """Partitions of records (event time, timestamp), appended by one clock; a client knows of ends what it last saw."""

    random: random.Random
    records: dict = field(default_factory=dict)
    known: dict = field(default_factory=dict)
    read: dict = field(default_factory=dict)
    now_ms: int = 0

    def append(self, source, time_us: int) -> None:
        self.now_ms += self.random.choice([0, 1, 10, IDLE_MS // 2, IDLE_MS])
        self.records.setdefault(source, []).append((time_us, self.now_ms))

    def fetch(self, source, routed: Routed) -> None:
        """One turn of a feed at one input: the next records, or what is known of its end."""
        at, records = self.read.get(source, 0), self.records.get(source, [])
        end = min(len(records), at + self.random.randint(1, 3))
        if self.known.get(source, 0) > at:
            self.read[source] = end
            routed.give(source, rows(at, [time for time, _ in records[at:end]], record_ms=records[end - 1][1]))
            return
        if routed.router.doubts_end(*source):
            self.known[source] = len(records)
        routed.router.on_input_end(*source, ended=self.known.get(source, 0) == at)
        if self.random.random() < 0.3:
            self.known[source] = len(records)

    def was_idle(self, source, place: int) -> bool:
        """Whether its partition was idle before this record or one before it, so that event time may have passed."""
        return any(self._was_idle_before(source, each) for each in range(place + 1))

    def _was_idle_before(self, source, place: int) -> bool:
        """Whether a record of another partition, written before this one, is later by the timeout than the last one."""
        own = self.records[source]
        first_ms = min(ms for each in self.records.values() for _, ms in each[:1])
        since_ms = own[place - 1][1] if place else first_ms
        others = (ms for other, each in self.records.items() if other != source for _, ms in each)
        return any(since_ms + IDLE_MS <= ms <= own[place][1] for ms in others)


def run(seed: int, query) -> tuple[Routed, Broker]:
    rng = random.Random(seed)
    sources = [(0, 0), (0, 1), (1, 0)]
    broker, routed = Broker(rng), Routed(query, inputs=sources)
    for time_us in range(60):
        if rng.random() < 0.5:
            routed.tick()
        source = rng.choice(sources)
        last_us = max((time for time, _ in broker.records.get(source, [])), default=0)
        broker.append(source, max(last_us, time_us - rng.choice([0, 0, 20])))
        for _ in range(rng.randint(0, 4)):
            broker.fetch(rng.choice(sources), routed)
    for source in itertools.chain(sources * 40):
        broker.known[source] = len(broker.records.get(source, []))
        broker.fetch(source, routed)
    for source in sources:
        routed.give(source, rows(len(broker.records.get(source, [])), [], heartbeat_us=100, messages=1))
    routed.tick()
    return routed, broker


def check(routed: Routed, broker: Broker) -> int:
    """How many rows were refused; each may have been, and all others were taken in order."""
    refused = {(letter.stream, letter.partition, letter.offset) for letter in routed.letters}
    assert len(refused) == len(routed.letters)
    taken = [
        time
        for source, each in broker.records.items()
        for n, (time, _) in enumerate(each)
        if (*source, n) not in refused
    ]
    assert routed.times() == sorted(taken)
    for stream, partition, offset in refused:
        assert broker.was_idle((stream, partition), offset), f"nobody waited for {stream}/{partition} {offset}"
    return len(refused)


def test_nothing_is_refused_where_nobody_asked_for_impatience():
    assert sum(check(*run(seed, QUERY)) for seed in range(60)) == 0


def test_only_rows_of_inputs_that_were_idle_by_the_broker_are_refused():
    assert sum(check(*run(seed, IMPATIENT)) for seed in range(300)) > 20


@pytest.mark.parametrize("planted", ["trusts what was known of an end", "looks at an end once"])
def test_planted_impatience_is_found(planted):
    def is_idle(order, source, latest_ms):
        return source.is_ended and order._is_overdue(source, latest_ms)

    if planted == "looks at an end once":
        bug = patch.object(EventTimeOrder, "_is_idle", is_idle)
    else:
        bug = patch.object(EventTimeOrder, "doubts_end", lambda *_: False)
    with bug, pytest.raises(AssertionError):
        sum(check(*run(seed, IMPATIENT)) for seed in range(300))
