"""Routers at the start and end of a generation: what they write, in which order, and what they hand over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import Fenced
from spojoin.model import Order, RowOrder
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import START, Action, Emit, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.router.closing_router import ClosingRouter
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.router.stream_book import Reach, StreamBook
from spojoin.runtime.generations import beginning_after
from spojoin.wire.records import Barrier, DeadLetter, Frame, Rows, SourcePosition, Takeover

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}, time: t}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '20')
""")
BY_TIME = replace(QUERY, order=RowOrder(Order.EVENT_TIME))
NEVER = -(2**63)
FIRST_TICK_MS = 10


def config(name: str) -> RouterConfig:
    return RouterConfig(
        router_id=name, workers=1, workers_max=1, frame_tuples=4, batch_tuples=8, batch_frames=99, handover_frames=2,
        linger_ms=0, credits_frames=99,
    )  # fmt: skip


def rows(first: int, ranks: Iterable[int], dead: Iterable[int] = ()) -> Rows:
    """One row a message from offset `first` on, produced at `ranks` ms, which are its event times in us, too."""
    ranks = np.array(list(ranks), np.int64)
    offsets = np.arange(first, first + len(ranks), dtype=np.int64)
    good = ~np.isin(offsets, list(dead))
    letters = [DeadLetter(0, 0, offset, 0, "null", "", b"") for offset in dead]
    kept = offsets[good]
    return Rows(
        kept, np.zeros(len(kept), np.int64), first + len(ranks), (kept,), ranks[good], pa.array(kept), ranks[good],
        letters,
    )  # fmt: skip


class Stage:
    """A router and the log that it writes and reads."""

    def __init__(self, router: RouterMachine, log: Iterable[Frame | Barrier] = (), partitions: int = 1) -> None:
        self.router = router
        self.log: list[Frame | Barrier] = []
        self.others: list[object] = []
        self.now_ms = FIRST_TICK_MS
        for record in log:
            self._read(record)
        self.do(router.on_caught_up())
        self.do(router.on_chosen())
        router.on_inputs([(0, partition) for partition in range(partitions)])

    def do(self, actions: Iterable[Action]) -> None:
        for action in list(actions):
            assert isinstance(action, Emit)
            if action.topic is Topic.FRAMES:
                self._read(action.record)
            else:
                self.others.append(action.record)

    def _read(self, record: Frame | Barrier) -> None:
        self.log.append(record)
        self.do(self.router.on_record(Topic.FRAMES, 0, len(self.log), record))

    def give(self, partition: int, given: Rows) -> None:
        self.do(self.router.on_rows(0, partition, given))

    def tick(self, by_ms: int = 50) -> None:
        self.now_ms += by_ms
        self.do(self.router.on_time(self.now_ms))

    @property
    def frames(self) -> list[Frame]:
        return [record for record in self.log if isinstance(record, Frame)]

    def keys(self) -> list[int]:
        return [key for frame in self.frames for key in frame.slices[0].keys.to_pylist()]

    def silent(self) -> list[int]:
        return [mark for frame in self.frames for mark in (frame.silent.tolist() or [0] * frame.count)]


def later(cut: dict, first: int = 0, **more: object) -> Beginning:
    starts = {place: SourcePosition(0, 0, NEVER) for place in cut}
    return Beginning(2, 7, cut, starts, (first,), **more)


def test_backfilled_rows_come_first_by_production_time_and_are_silent():
    begun = later({(0, 0): (3, 0), (0, 1): (2, 0)}, 40)
    stage = Stage(RouterMachine(QUERY, START, config("r"), beginning=begun), partitions=2)
    stage.give(0, rows(0, [1, 3, 5, 6]))
    assert stage.keys() == [], "rows behind the cut and later ones wait for the other partition"
    stage.give(1, replace(rows(0, [2, 4, 9]), keys=pa.array([10, 11, 12])))
    stage.tick()
    assert stage.keys() == [0, 10, 1, 11, 2, 3, 12]
    assert stage.silent() == [1, 1, 1, 1, 1, 0, 0]
    assert stage.frames[0].first_seq == stage.frames[0].slices[0].first_index == 40
    assert isinstance(stage.log[0], Barrier)
    assert (stage.log[0].first_indexes, stage.log[0].fingerprint, stage.frames[0].fingerprint) == ((40,), 7, 7)


def test_refused_rows_before_the_cut_are_not_counted_or_written_again():
    begun = later({(0, 0): (3, 0)}, rejected={"null": 5})
    stage = Stage(RouterMachine(QUERY, START, config("r"), beginning=begun))
    stage.give(0, rows(0, range(6), dead=[1, 4]))
    stage.tick()
    assert stage.keys() == [0, 2, 3, 5]
    assert [letter.offset for letter in stage.others] == [4]
    assert stage.frames[-1].rejected == {"null": 6}


def test_a_restart_during_the_backfill_continues_in_the_same_order():
    begun = later({(0, 0): (6, 0)})
    first = Stage(RouterMachine(QUERY, START, config("r"), beginning=begun))
    first.give(0, rows(0, range(5)))
    first.tick()
    assert 0 < len(first.keys()) < 6
    place = first.frames[-1].source[0, 0]
    second = Stage(RouterMachine(QUERY, START, config("s"), beginning=begun), first.log)
    second.give(0, rows(place.offset, range(place.offset, 9)))
    second.tick()
    assert second.keys() == list(range(9))
    assert second.silent() == [1] * 6 + [0] * 3


def closing(stage: Stage, query=QUERY, begun: Beginning | None = None, *, keeps_order: bool = False) -> Stage:
    begun = begun or Beginning()
    router = ClosingRouter(query, START, config("closing"), lambda _: None, begun, keeps_order=keeps_order)
    return Stage(router, stage.log)


def closes(stage: Stage) -> list[Barrier]:
    return [record for record in stage.log if isinstance(record, Barrier) and record.closes]


def take_over(stage: Stage) -> Takeover:
    stage.tick()
    if stage.frames:
        assert not closes(stage), "results are not out"
        assert not [record for record in stage.others if isinstance(record, Takeover)]
        stage.router.on_result_position(ResultPosition(stage.frames[-1].frame_id + 1, 0))
    stage.tick()
    stage.tick()
    assert closes(stage) == stage.log[-1:]
    (found,) = [record for record in stage.others if isinstance(record, Takeover)]
    return found


def test_by_arrival_a_generation_ends_after_the_rows_of_its_log():
    old = Stage(RouterMachine(QUERY, START, config("r")))
    old.give(0, rows(0, range(6), dead=[2]))
    found = take_over(closing(old))
    assert (found.generation, found.from_generation, found.counts) == (2, 1, (4,))
    assert found.source[0, 0].offset == 5, "the last row waited for its frame, and is the new generation's"


def test_by_event_time_it_first_writes_the_rows_already_read_and_no_more():
    old = Stage(RouterMachine(BY_TIME, START, config("r")), partitions=2)
    old.give(0, rows(0, [10, 11, 12, 13, 30]))
    old.give(1, rows(0, [20, 40]))
    old.tick()
    assert len(old.keys()) == 6, "the last row of the second partition may still be preceded"
    stage = closing(old, BY_TIME)
    stage.router.on_inputs([(0, 0), (0, 1)])
    assert (stage.router.wants_rows(0, 0), stage.router.wants_rows(0, 1)) == (False, True)
    stage.give(1, rows(1, [40, 41]))
    assert not stage.router.wants_rows(0, 1)
    found = take_over(stage)
    assert {place: at.offset for place, at in found.source.items()} == {(0, 0): 5, (0, 1): 2}
    assert found.counts == (7,)


def test_a_generation_in_the_same_order_continues_without_losing_a_pair():
    """Of p0 = 500, p1 = 600 and 900 only 500 is out: a row of p0 at 700 that comes later is before 900."""
    old = Stage(RouterMachine(BY_TIME, START, config("r")), partitions=2)
    old.give(0, rows(0, [500]))
    old.give(1, replace(rows(0, [600, 900]), keys=pa.array([10, 11])))
    old.tick()
    assert old.keys() == [0]
    stage = closing(old, BY_TIME, keeps_order=True)
    stage.router.on_inputs([(0, 0), (0, 1)])
    assert (stage.router.wants_rows(0, 0), stage.router.wants_rows(0, 1)) == (False, True)
    stage.give(1, replace(rows(0, [600, 900]), keys=pa.array([10, 11])))
    assert not stage.router.wants_rows(0, 1)
    found = take_over(stage)
    assert {place: at.offset for place, at in found.source.items()} == {(0, 0): 1, (0, 1): 0}
    begun = beginning_after(Beginning(2, 7), found, BY_TIME, BY_TIME, {0: 0})
    new = Stage(RouterMachine(BY_TIME, START, config("n"), beginning=begun), partitions=2)
    new.give(1, replace(rows(0, [600, 900]), keys=pa.array([10, 11])))
    new.give(0, replace(rows(1, [700, 950]), keys=pa.array([1, 2])))
    new.tick()
    assert new.keys() == [10, 1, 11]
    assert new.silent() == [0, 0, 0]


def test_rows_answered_out_of_their_inputs_order_are_not_answered_again():
    old = Stage(RouterMachine(BY_TIME, START, config("r")), partitions=2)
    old.give(0, rows(0, [510, 509, 520]))
    old.give(1, replace(rows(0, [530]), keys=pa.array([10])))
    old.tick()
    answered = old.keys()
    stage = closing(old, BY_TIME, keeps_order=True)
    stage.router.on_inputs([(0, 0), (0, 1)])
    for partition in range(2):
        stage.router.on_input_end(0, partition)
    found = take_over(stage)
    begun = beginning_after(Beginning(2, 7), found, BY_TIME, BY_TIME, {0: 0})
    new = Stage(RouterMachine(BY_TIME, START, config("n"), beginning=replace(begun, starts={})), partitions=2)
    new.give(0, rows(0, [510, 509, 520, 600]))
    new.give(1, replace(rows(0, [530, 600]), keys=pa.array([10, 11])))
    new.tick()
    said = dict(zip(new.keys(), new.silent(), strict=True))
    assert answered
    assert {key for key, is_silent in said.items() if is_silent} == set(answered)


def test_a_row_that_one_generation_refused_and_the_next_one_takes_is_answered():
    """Its order passed the row, but 900 before it isn't out, so that the next generation reads both again."""
    lenient = replace(BY_TIME, order=RowOrder(Order.EVENT_TIME, 1_000))
    old = Stage(RouterMachine(lenient, START, config("r")), partitions=2)
    old.give(0, replace(rows(0, [500, 800]), heartbeat_us=850))
    old.give(1, replace(rows(0, [900, 400], dead=[1]), keys=pa.array([10]), heartbeat_us=850))
    old.tick()
    assert old.keys() == [0, 1]
    stage = closing(old, lenient, keeps_order=True)
    stage.router.on_inputs([(0, 0), (0, 1)])
    assert stage.router.wants_rows(0, 1)
    stage.give(1, replace(rows(0, [900, 400], dead=[1]), keys=pa.array([10])))
    found = take_over(stage)
    begun = beginning_after(Beginning(2, 7), found, lenient, lenient, {0: 0})
    new = Stage(RouterMachine(lenient, START, config("n"), beginning=replace(begun, starts={})), partitions=2)
    new.give(0, rows(0, [500, 800]))
    new.give(1, replace(rows(0, [900, 400]), keys=pa.array([10, 11])))
    new.do(new.router.flush())
    assert dict(zip(new.keys(), new.silent(), strict=True)) == {0: 1, 1: 1, 10: 0, 11: 0}


@pytest.mark.parametrize(
    ("refused", "refused_next", "answered"),
    [([], [1], [0, 1]), ([1], [], [0, 1, 12])],
    ids=["refused by the next", "refused by the first"],
)
def test_a_row_is_late_by_the_rows_that_its_own_generation_takes(refused, refused_next, answered):
    """400 follows 1,200, which one generation refuses: it was answered only if the first one had refused 1,200."""
    strict, lenient = (replace(BY_TIME, order=RowOrder(Order.EVENT_TIME, lateness)) for lateness in (500, 1_000))

    def second_partition(dead: list[int]) -> Rows:
        keys = [10, 12] if dead else [10, 11, 12]
        return replace(rows(0, [880, 1_200, 400], dead), keys=pa.array(keys), heartbeat_us=850)

    old = Stage(RouterMachine(strict, START, config("r")), partitions=2)
    old.give(0, replace(rows(0, [500, 800]), heartbeat_us=850))
    old.give(1, second_partition(refused))
    old.tick()
    assert sorted(old.keys()) == answered
    stage = closing(old, strict, keeps_order=True)
    stage.router.on_inputs([(0, 0), (0, 1)])
    stage.give(1, second_partition(refused))
    begun = beginning_after(Beginning(2, 7), take_over(stage), strict, lenient, {0: 0})
    new = Stage(RouterMachine(lenient, START, config("n"), beginning=replace(begun, starts={})), partitions=2)
    new.give(0, rows(0, [500, 800]))
    new.give(1, second_partition(refused_next))
    new.do(new.router.flush())
    assert sorted(key for key, is_silent in zip(new.keys(), new.silent(), strict=True) if is_silent) == answered


def test_an_input_without_rows_has_reached_what_was_merged_without_it():
    """Windows are filled again for rows behind 800; the order without a change of query would refuse 700 as well."""
    old = Stage(RouterMachine(BY_TIME, START, config("r")), partitions=2)
    old.give(1, replace(rows(0, []), next_offset=1, heartbeat_us=900))
    old.give(0, rows(0, [500, 800]))
    old.tick()
    assert old.keys() == [0, 1]
    stage = closing(old, BY_TIME, keeps_order=True)
    stage.router.on_inputs([(0, 0), (0, 1)])
    found = take_over(stage)
    begun = beginning_after(Beginning(2, 7), found, BY_TIME, BY_TIME, {0: 0})
    new = Stage(RouterMachine(BY_TIME, START, config("n"), beginning=replace(begun, starts={})), partitions=2)
    new.give(0, rows(0, [500, 800]))
    new.give(1, replace(rows(1, [700, 800, 950]), keys=pa.array([10, 11, 12])))
    new.do(new.router.flush())
    assert dict(zip(new.keys(), new.silent(), strict=True)) == {0: 1, 1: 1, 11: 0, 12: 0}
    (letter,) = new.others
    assert isinstance(letter, DeadLetter)
    assert (letter.offset, letter.reason) == (1, "late")
    assert "its input had no row when others were merged up to 1970-01-01T00:00:00.000800" in letter.detail


def test_times_that_had_been_reached_before_the_cut_stay_known_over_generations():
    begun = later({(0, 0): (3, 0)}, highs={(0, 0): 5_000})
    lenient = replace(BY_TIME, order=RowOrder(Order.EVENT_TIME, 1_000))
    filling = Stage(RouterMachine(lenient, START, config("r"), beginning=begun))
    filling.give(0, rows(2, [4_000, 4_100, 4_200]))
    filling.do(filling.router.flush())
    stage = closing(filling, lenient, begun, keeps_order=True)
    assert take_over(stage).source[0, 0] == SourcePosition(5, 0, 5_000)


def test_a_generation_replaced_during_its_backfill_hands_over_its_own_start():
    begun = later({(0, 0): (50, 0)}, 30, counts=(50,), rejected={"late": 3})
    filling = Stage(RouterMachine(QUERY, START, config("r"), beginning=begun))
    filling.give(0, rows(0, range(8)))
    found = take_over(closing(filling, begun=begun))
    assert (found.source[0, 0].offset, found.counts, found.rejected) == (50, (50,), {"late": 3})


def test_a_closed_log_ends_a_router_and_another_closing_one_hands_over():
    old = Stage(RouterMachine(QUERY, START, config("r")))
    old.give(0, rows(0, range(4)))
    first = closing(old)
    found = take_over(first)
    with pytest.raises(Fenced, match="has ended"):
        Stage(RouterMachine(QUERY, START, config("late")), first.log)
    second = ClosingRouter(
        QUERY, ResultPosition(1, 0), config("second"), lambda _: None, Beginning(), keeps_order=False
    )
    again = Stage(second, first.log)
    again.tick()
    assert again.others == [found]
    assert again.log == first.log, "nothing follows what closed the log"


def test_a_book_numbers_from_its_start_and_reaches_no_further_back():
    book = StreamBook(QUERY.window, config("r"))
    book.begin_at(100)
    assert (book.count, book.batch_first, book.handover_index) == (100, 100, 100)
    own = Reach(None, np.array([], np.int64), has_gaps=False)
    assert book.lower_bounds(Reach(None, np.array([100, 110, 125]), has_gaps=False), own).tolist() == [100, 100, 105]


def test_a_router_that_finds_the_log_closed_reads_batches_all_the_same():
    router = ClosingRouter(QUERY, START, config("b"), lambda _: None, Beginning(1, 7), keeps_order=False)
    for offset, record in enumerate((Barrier(1, "a", 7), Barrier(2, "a", 7, closes=True))):
        assert not list(router.on_record(Topic.FRAMES, 0, offset, record))
    assert router.wants(Topic.BATCHES, 0), "who waits until all is read must read it"
    assert not list(router.on_caught_up())
    assert not router.wants(Topic.BATCHES, 0)
