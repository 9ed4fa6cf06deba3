"""Workers stand in for those that a smaller worker count abandons, over the real router and mutable part."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from spojoin.ports.interfaces import LogPartition
from spojoin.protocol import stand_in
from spojoin.protocol.machine import START, Emit, ResultPosition, Rewind
from spojoin.protocol.packed_machine import Fellow, pack_of
from spojoin.protocol.packing import edge_of
from spojoin.protocol.topology import Role, Topic
from spojoin.query.load import parse_query
from spojoin.roles.pojoin.worker import PATIENCE_MS, PoJoinWorker
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.codec import decode
from spojoin.wire.records import Batch, Frame, Rows, WorkerCount
from tests.support.routed_log import RoutedLog
from tests.support.runtime_world import FRAMES, Bench

QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
)
BATCH_TUPLES = 4


class Log(RoutedLog):
    """Frames and batches of a router that gets worker counts between rows."""

    def __init__(self, *worker_counts: int, columns: int = 0) -> None:
        sizes = {"frame_tuples": 4, "batch_tuples": BATCH_TUPLES, "handover_frames": 1, "credits_frames": 1 << 20}
        config = RouterConfig("r", worker_counts[0], columns=columns, **sizes)
        super().__init__(QUERY, config)
        for version, workers in enumerate(worker_counts):
            self.take(self.router.on_record(Topic.CONTROL, 0, version, WorkerCount(version, workers)))
            self.rows(16, first=16 * version)

    def rows(self, count, first):
        numbers = np.arange(first, first + count, dtype=np.int64)
        nothing = np.zeros(count, np.int64)
        rows = Rows(numbers, nothing, first + count, (numbers * 7 % 11,), None, pa.array(numbers), nothing)
        self.take(self.router.on_rows(0, 0, rows))


class Reader:
    """Feeds a worker as the loop does, and records what it emits."""

    def __init__(self, log: Log, worker: int, result_position: ResultPosition = START) -> None:
        self.log = log
        self.worker = PoJoinWorker(QUERY, worker, result_position)
        self.at = {Topic.FRAMES: 0, Topic.BATCHES: 0}
        self.parts = {}
        self.rewinds = []

    def take(self, actions):
        for action in actions:
            if isinstance(action, Rewind):
                self.at[action.topic] = 0
                self.rewinds.append(action.topic)
            elif isinstance(action, Emit):
                part = action.record
                assert 1 <= part.part <= action.partition
                again = self.parts.setdefault((part.frame_id, part.part), part)
                assert same(again, part)

    def read(self):
        """Read everything, one record of each topic in turn."""
        is_any = True
        while is_any:
            is_any = False
            for topic in self.at:
                offset = self.at[topic]
                if offset < len(self.log.records[topic]) and self.worker.wants(topic, 0):
                    self.at[topic] += 1
                    self.take(self.worker.on_record(topic, 0, offset, self.log.records[topic][offset]))
                    is_any = True
        return self

    def time(self, now_ms):
        self.take(self.worker.on_time(now_ms))
        return self.read()

    def wait(self):
        return self.time(0).time(1).time(1 + PATIENCE_MS)

    def answered(self, part):
        return sorted(frame for frame, each in self.parts if each == part)


def same(a, b):
    counts = [[matches.counts.tolist() for matches in each.directions] for each in (a, b)]
    return (a.begin, a.end, counts[0]) == (b.begin, b.end, counts[1])


def due(log, worker):
    return [frame.frame_id for frame in log.frames if frame.count and frame.workers > worker]


def test_a_worker_count_enters_the_log_at_once_in_its_own_frame():
    frames = Log(2, 3, 1).frames
    changes = [frame for before, frame in itertools.pairwise(frames) if frame.workers != before.workers]
    assert [(frame.workers, frame.count) for frame in changes] == [(3, 0), (1, 0)]


@pytest.mark.parametrize("worker", range(3))
def test_a_worker_answers_the_frames_whose_count_includes_it(worker):
    log = Log(2, 3, 1)
    reader = Reader(log, worker).read()
    assert reader.answered(1 + worker) == due(log, worker)


@pytest.mark.parametrize(("workers", "columns"), [(1, 1), (3, 1), (4, 2), (5, 2), (3, 3), (2, 5)])
def test_each_frame_has_one_answer_for_each_column(workers, columns):
    log, whole = Log(workers, columns=columns), Reader(Log(1), 0).read()
    parts = {}
    for worker in range(workers):
        found = Reader(log, worker).read().parts
        assert not parts.keys() & found.keys()
        parts |= found
    columns = min(columns, workers)
    assert parts.keys() == {(frame.frame_id, 1 + column) for frame in log.frames for column in range(columns)}
    for frame in log.frames:
        found = [parts[frame.frame_id, 1 + column].directions for column in range(columns)]
        expected = whole.parts[frame.frame_id, 1].directions
        for number, matches in enumerate(expected):
            assert np.array_equal(sum(each[number].counts for each in found), matches.counts)


def test_workers_that_stay_in_their_column_read_no_batch_again():
    log = Log(4, 2, 4, 3, columns=2)
    readers = [Reader(log, worker).read() for worker in range(4)]
    assert [reader.rewinds for reader in readers] == [[], [], [Topic.BATCHES], [Topic.BATCHES]]
    assert [worker for worker in range(4) if readers[worker].worker.state_tuples()] == [0, 1]
    assert sorted(key for reader in readers for key in reader.parts) == [
        (frame.frame_id, part) for frame in log.frames if frame.count for part in (1, 2)
    ]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("worker_counts", [(1, 2), (2, 1, 2), (1, 1, 2, 1, 2)])
def test_a_worker_that_restarts_behind_changes_of_the_count_answers_all(worker_counts, is_packed):
    """Frames and batches wait side by side, so the loop holds some of the batches that it must read again."""
    log, bench = Log(*worker_counts), Bench(Role.POJOIN)
    bench.append(FRAMES, *log.records[Topic.FRAMES])
    bench.append(LogPartition("q.batches", 0), *log.records[Topic.BATCHES])
    bench.spec = replace(bench.spec, machine_factory=partial(alone_or_packed, is_packed=is_packed))
    loop = bench.loop()
    for _ in range(20):
        loop.step(0)
    reader = bench.log.reader()
    reader.open(LogPartition("q.matches", 1), 0)
    parts = [decode(record.value) for record in reader.poll(1_000, 0)]
    assert [part.frame_id for part in parts] == due(log, 0)


def alone_or_packed(result_position, *, is_packed):
    worker = PoJoinWorker(QUERY, 0, result_position)
    return pack_of([Fellow(Role.POJOIN, worker)], edge_of((Role.POJOIN,))) if is_packed else worker


def test_no_worker_stands_in_before_patience_ends_or_while_results_move():
    log = Log(3, 1)
    reader = Reader(log, 0).read()
    for moves in range(4):
        reader.time(moves * PATIENCE_MS * 3 // 4)
        reader.worker.on_result_position(ResultPosition(0, moves))
    assert reader.answered(2) == []
    reader.time(10 * PATIENCE_MS).time(11 * PATIENCE_MS)
    assert reader.answered(2) == due(log, 1)


@pytest.mark.parametrize("worker_counts", [(3, 1), (4, 2), (2, 4, 1), (4, 3, 1), (3, 1, 3, 2), (1, 4, 3, 2)])
def test_stand_ins_answer_exactly_as_the_lost_workers(worker_counts):
    log = Log(*worker_counts)
    last = worker_counts[-1]
    left = [Reader(log, worker).read().wait() for worker in range(last)]
    for gone in range(last, max(worker_counts)):
        itself = Reader(log, gone).read()
        stand_in = left[gone % last]
        assert stand_in.answered(1 + gone) == itself.answered(1 + gone) == due(log, gone)
        assert all(same(part, stand_in.parts[key]) for key, part in itself.parts.items())


def test_a_stand_in_begins_with_the_first_frame_to_answer_and_ends_with_the_count():
    log = Log(3, 1)
    shrunk = next(frame.frame_id for frame in log.frames if frame.workers == 1)
    reader = Reader(log, 0, ResultPosition(2, 1)).read().wait()
    assert reader.answered(3) == [frame for frame in due(log, 2) if frame >= 2]
    assert reader.parts[2, 3].begin == 0
    counted, rewinds = reader.worker.counters(), len(reader.rewinds)
    reader.worker.on_result_position(ResultPosition(shrunk, 0))
    assert reader.worker.counters() == counted
    reader.time(9 * PATIENCE_MS).time(99 * PATIENCE_MS)
    assert len(reader.rewinds) == rewinds


def test_answered_frames_need_no_stand_in():
    log = Log(3, 1)
    shrunk = next(frame.frame_id for frame in log.frames if frame.workers == 1)
    reader = Reader(log, 0, ResultPosition(shrunk, 0)).read().wait()
    assert reader.answered(2) == reader.answered(3) == []
    assert Topic.FRAMES not in reader.rewinds


def test_a_worker_may_leave_when_no_frame_waits_for_it():
    log = Log(3, 1)
    shrunk = next(frame.frame_id for frame in log.frames if frame.workers == 1)
    reader = Reader(log, 2)
    assert not reader.worker.is_needed()
    reader.read()
    assert reader.worker.is_needed()
    reader.worker.on_result_position(ResultPosition(shrunk - 1, 3))
    assert reader.worker.is_needed()
    reader.worker.on_result_position(ResultPosition(shrunk, 0))
    assert not reader.worker.is_needed()


def test_a_worker_within_the_count_is_always_needed():
    reader = Reader(Log(2), 1).read()
    reader.worker.on_result_position(ResultPosition(99, 0))
    assert reader.worker.is_needed()


def test_a_worker_beyond_the_count_holds_nothing():
    reader = Reader(Log(2, 1), 3).read()
    assert reader.parts == {}
    assert reader.rewinds == []
    assert reader.worker.state_tuples() == 0


def held_up(reader, lost):
    """Results stand at the first frame of a lost worker, which has read the same log; returns the reader."""
    first = min(frame for frame, _ in lost.parts)
    reader.worker.on_result_position(ResultPosition(first, 0))
    return reader.time(0)


@pytest.mark.parametrize(("workers", "columns"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 2)])
def test_the_next_rows_answer_as_a_lost_worker_and_read_nothing_again(workers, columns):
    log, rows = Log(*[workers] * 4, columns=columns), workers // columns
    lost = Reader(log, rows * columns - 1).read()
    for behind in range(1, rows):
        reader = held_up(Reader(log, behind * columns - 1).read(), lost)
        reader.time(behind * stand_in.PATIENCE_MS - 1)
        assert not lost.parts.keys() & reader.parts.keys()
        reader.time(behind * stand_in.PATIENCE_MS)
        assert all(same(part, reader.parts[key]) for key, part in lost.parts.items())
        assert reader.worker.counters()["stand_in_frames"] == len(lost.parts)
        assert reader.rewinds == []


def test_a_stand_in_answers_at_once_until_its_stint_ends():
    log = Log(2, columns=1)
    reader, lost = Reader(log, 0).read(), Reader(log, 1).read()
    held_up(reader, lost).time(stand_in.PATIENCE_MS)
    log.rows(16, first=16)
    lost.read()
    assert reader.read().parts.keys() >= lost.parts.keys()
    reader.worker.on_result_position(ResultPosition(len(log.frames), 0))
    reader.time(stand_in.PATIENCE_MS + stand_in.STINT_MS)
    answered = set(lost.parts)
    log.rows(16, first=32)
    assert not (lost.read().parts.keys() - answered) & reader.read().parts.keys()


def test_no_row_stands_in_while_results_move_or_wait_for_its_own_frame():
    log = Log(2, 2, columns=1)
    reader, lost = Reader(log, 0).read(), Reader(log, 1).read()
    own = set(reader.parts)
    for time, frame in enumerate(sorted({frame for frame, _ in lost.parts})):
        reader.worker.on_result_position(ResultPosition(frame, 0))
        reader.time(time * stand_in.PATIENCE_MS).time((time + 1) * stand_in.PATIENCE_MS - 1)
    assert reader.parts.keys() == own
    reader = Reader(log, 0, ResultPosition(min(own)[0], 0)).read().wait().wait()
    assert reader.parts.keys() == own


@pytest.mark.parametrize("worker_counts", [(4, 2), (6, 2), (6, 4, 2), (4, 2, 4)])
def test_rows_that_stay_answer_for_those_that_leave_and_read_nothing_again(worker_counts):
    log = Log(*worker_counts, columns=2)
    lost = Reader(log, 3).read()
    reader = held_up(Reader(log, 1).read(), lost).time(9 * stand_in.PATIENCE_MS)
    assert all(same(part, reader.parts[key]) for key, part in lost.parts.items())
    assert reader.rewinds == []


def test_no_worker_answers_for_a_column_that_it_has_left():
    log = Log(4, columns=2)
    lost = Reader(log, 3).read()
    log.records[Topic.FRAMES] = [
        replace(each, columns=1) if isinstance(each, Frame) and each.frame_id > 2 else each
        for each in log.records[Topic.FRAMES]
    ]
    reader = held_up(Reader(log, 1).read(), lost).time(9 * stand_in.PATIENCE_MS)
    assert [key for key in reader.parts if key[0] <= 2] == [(0, 2), (2, 2)]


def test_kept_frames_hold_no_more_than_they_reach_and_go_with_their_results():
    log = Log(2, 2, 2, 2, 2, 2, columns=1)
    reader = Reader(log, 0).read()
    assert reader.worker.state_tuples() > QUERY.window.length + 2 * BATCH_TUPLES
    reader.worker.on_result_position(ResultPosition(len(log.frames), 0))
    reach = QUERY.window.length + len(log.frames[-1].slices[0])
    assert reader.worker.state_tuples() <= reach + max(BATCH_TUPLES, reach // 7)


def test_a_lost_batch_delays_no_answered_frame():
    log = Log(1)
    reader = Reader(log, 0)
    batches, log.records[Topic.BATCHES] = log.records[Topic.BATCHES], []
    reader.read()
    waiting = reader.answered(1)
    assert waiting != due(log, 0)
    first = next(batch for batch in batches if isinstance(batch, Batch) and batch.batch_id == 1)
    after = next(f.frame_id for f in log.frames if f.slices[0].handover_batch > first.batch_id)
    assert after not in waiting
    reader.worker.on_result_position(ResultPosition(len(log.frames) + 1, 0))
    reader.time(1)
    assert reader.worker.wants(Topic.FRAMES, 0)
    assert reader.answered(1) == waiting


def test_a_lagging_worker_holds_no_more_than_the_window():
    log = Log(1, 1, 1, 1)
    reader = Reader(log, 0).read()
    log.rows(64, first=64)
    reader.worker.on_result_position(ResultPosition(len(log.frames), 0))
    reader.read()
    reach = QUERY.window.length + len(log.frames[-1].slices[0])
    assert reader.worker.state_tuples() <= reach + BATCH_TUPLES
