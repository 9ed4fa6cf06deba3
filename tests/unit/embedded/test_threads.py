"""Any number of threads gives the same results in the same order, hands errors on, and leaves no thread behind."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.embedded.join import Join
from spojoin.embedded.outputs import WriterBehind
from spojoin.embedded.writers import TableWriter
from spojoin.errors import ConfigurationError
from spojoin.kernels.pieces import shares
from spojoin.protocol.frame_evaluation import MUTABLE_PART
from spojoin.query.load import parse_query
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.sink.assembly import WaitingParts
from spojoin.threads import Lane, Threads, cores
from spojoin.wire.records import Part
from tests.support.nested_loop import counts

ROWS, VALUES = 24_000, 40
THREADS = (2, 3, 5)
QUERY = """
name: threads
streams:
  s: {{schema: {{a: long, b: long}}}}
sql: SELECT * FROM s AS l JOIN s AS r ON {condition} WINDOW AS (SLIDE INTERVAL '{slide}' ON '{window}')
order: arrival
output: {output}
{more}
"""
SHAPES = {
    "count": ("l.a > r.a AND l.b < r.b", 2_000, 10_000, "count", ""),
    "one condition": ("l.a > r.a", 2_000, 10_000, "count", ""),
    "slide of 1": ("l.a > r.a AND l.b < r.b", 1, 9_000, "count", ""),
    "bitmap": ("l.a > r.a AND l.b = r.b", 500, 2_000, "bitmap", ""),
    "pairs": ("l.a > r.a AND l.b = r.b", 500, 2_000, "pairs", ""),
    "pairs, limited": ("l.a > r.a AND l.b < r.b", 500, 2_000, "pairs", "limit: 3"),
}


def query_of(shape: str):
    condition, slide, window, output, more = SHAPES[shape]
    return parse_query(QUERY.format(condition=condition, slide=slide, window=window, output=output, more=more))


def rows(n: int = ROWS) -> pa.RecordBatch:
    rng = np.random.default_rng(5)
    return pa.record_batch({name: rng.integers(0, VALUES, n) for name in "ab"})


def engine(shape: str, threads: int, workers: int = 2) -> Engine:
    config = RouterConfig("test", workers=workers, frame_tuples=1_024, batch_tuples=512, credits_frames=UNLIMITED)
    return Engine(query_of(shape), config, threads=threads)


def helpers() -> list[threading.Thread]:
    """Threads that share work; the one that looks at all evaluations of a process outlives them."""
    named = [thread for thread in threading.enumerate() if thread.name.startswith("spojoin")]
    return [thread for thread in named if thread.name != "spojoin-watch"]


def joined(shape: str, threads: int, workers: int = 2) -> list[pa.RecordBatch]:
    join = engine(shape, threads, workers)
    batch = rows()
    found = [result for begin in (0, 10_000) for result in join.feed(0, batch.slice(begin, 10_000))]
    found += join.feed(0, batch.slice(20_000))
    found += join.flush()
    join.close()
    return found


@pytest.fixture(autouse=True)
def _always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small frames are worth sharing, so that small data reach every piece."""
    monkeypatch.setattr("spojoin.index.stream_index.TOGETHER_MIN", 0)
    monkeypatch.setattr("spojoin.roles.logical_and.machine.TOGETHER_MIN", 0)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_and_their_batches_do_not_depend_on_threads(shape: str, threads: int) -> None:
    assert joined(shape, threads) == joined(shape, 1)


@pytest.mark.parametrize("threads", [1, *THREADS])
def test_few_chunks_of_partners_wait_at_once(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spojoin.protocol.frame_evaluation.CHUNK_PARTNERS", 4_000)
    monkeypatch.setattr("spojoin.roles.sink.assembly.PARTNERS_MAX", room := 10_000)
    accept, held, listed = WaitingParts.accept_chunk, [], []

    def note(parts: WaitingParts, part: Part, *done: object) -> None:
        accept(parts, part, *done)
        if part.part != MUTABLE_PART:
            held.append(parts._held[part.part][1])
            listed.append(sum(len(each.partners) for each in part.directions))

    monkeypatch.setattr(WaitingParts, "accept_chunk", note)
    joined("pairs", threads, workers=min(threads, 2))
    assert sum(listed) > 50 * max(listed)
    assert max(held) <= room + max(listed)


def test_results_that_come_while_the_engine_counts_what_waits_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(lane: Lane) -> int:
        while lane._tasks and lane._error is None and not lane._is_full:
            time.sleep(0.0001)
        return 0

    expected = joined("count", 1)
    monkeypatch.setattr(Lane, "waiting", property(ended))
    assert joined("count", 3) == expected


@pytest.mark.parametrize("threads", THREADS)
def test_helpers_go_on_between_feeds_and_waiting_gives_all_full_frames(threads: int) -> None:
    join = engine("count", threads)
    found = list(chain(join.feed(0, rows()), join.wait()))
    assert found == list(engine("count", 1).feed(0, rows()))
    assert list(chain(found, join.flush())) == joined("count", 1)
    join.close()


@pytest.mark.parametrize("threads", THREADS)
def test_a_push_returns_the_same_with_any_number_of_threads(threads: int) -> None:
    def pushed(threads: int) -> list[pa.Table]:
        with Join(query_of("count"), threads=threads) as join:
            tables = [join.push(rows().slice(begin, 12_000)) for begin in (0, 12_000)]
            return [*tables, join.flush()]

    assert pushed(threads) == pushed(1)


def test_counts_are_those_of_a_plain_loop() -> None:
    found = pa.Table.from_batches(joined("count", 3)).select(["seq", "as_left", "as_right"])
    columns = [rows().column(name).to_numpy() for name in "ab"]
    seqs = (0, 9_999, 10_000, 12_500, 23_999)
    plain = counts(columns, lambda left, right: (left[0] > right[0]) & (left[1] < right[1]), 10_000, 2_000, seqs)
    assert [tuple(row.values()) for row in found.take(seqs).to_pylist()] == list(plain)


@pytest.mark.parametrize("machine", [PoJoinMachine, MutableMachine])
def test_an_error_in_a_thread_reaches_the_caller(machine: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(machine, "_evaluate_frame", fail)
    join = engine("count", 5)
    with pytest.raises(RuntimeError, match="planted"):
        list(chain(join.feed(0, rows()), join.wait()))
    join.close()
    assert helpers() == []


def test_an_abandoned_iterator_leaves_no_thread() -> None:
    join = engine("count", 4)
    next(join.feed(0, rows()))
    assert len(helpers()) == 3
    del join
    gc.collect()
    deadline = time.monotonic() + 60
    while helpers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert helpers() == []


def test_a_closed_join_has_no_threads() -> None:
    with Join(query_of("count"), threads=3) as join:
        join.push({name: list(range(4_000)) for name in "ab"})
        join.flush()
        assert len(helpers()) == 2
    assert helpers() == []


def test_a_join_takes_threads_from_1() -> None:
    assert Join(query_of("count"))._engine.threads == cores()
    for wrong in (0, -1, True, "2", 1.5):
        with pytest.raises(ConfigurationError, match="threads="):
            Join(query_of("count"), threads=wrong)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_pieces_keep_their_order_and_may_have_pieces(count: int) -> None:
    threads = Threads(count)
    inner = lambda n: sum(threads.each([partial(int, k) for k in range(n)]))  # noqa: E731
    assert threads.each([partial(inner, n) for n in range(40)]) == [n * (n - 1) // 2 for n in range(40)]
    threads.close()


def test_the_first_error_of_pieces_is_raised_when_none_runs_any_more() -> None:
    threads, running = Threads(3), []

    def piece(at: int) -> None:
        running.append(at)
        try:
            time.sleep(0.002)
            if at == 4:
                raise KeyError("planted")
        finally:
            running.remove(at)

    with pytest.raises(KeyError, match="planted"):
        threads.each([partial(piece, at) for at in range(100)])
    assert running == []
    assert threads.each([partial(int, 1), partial(int, 2)]) == [1, 2]
    threads.close()


def test_a_lane_keeps_its_order_and_is_worked_by_whoever_waits() -> None:
    threads, order = Threads(2), []
    lanes = [threads.lane(most=51) for _ in range(3)]
    for at in range(50):
        for number, lane in enumerate(lanes):
            lane.add(map(order.append, [(number, at)]))
    threads.work_until(lambda: not any(lane.waiting for lane in lanes))
    assert [[at for lane, at in order if lane == number] for number in range(3)] == [list(range(50))] * 3
    threads.close()


@pytest.mark.parametrize("most", [1, 2, 7])
def test_a_lane_whose_results_nobody_takes_waits(most: int) -> None:
    threads, made = Threads(3), []

    def numbers(first: int) -> Iterator[int]:
        for number in range(first, first + 10):
            made.append(number)
            yield number

    lane = threads.lane(most)
    for first in (0, 10, 20):
        lane.add(numbers(first))
    taken: list[int] = []
    while len(taken) < 30:
        threads.work_until(lambda: lane.has_news)
        time.sleep(0.001)
        assert len(made) <= len(taken) + most
        taken.append(next(lane.take()))
    assert taken == list(range(30))
    threads.work_until(lambda: not lane.waiting)
    threads.close()


@pytest.fixture
def _hasty() -> Iterator[None]:
    """Threads take turns within a line."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_hasty")
def test_lanes_that_fill_and_empty_all_the_time_give_each_result_once() -> None:
    threads = Threads(5)
    lanes = [threads.lane(most=2) for _ in range(3)]
    for lane in lanes:
        for first in range(0, 3_000, 100):
            lane.add(iter(range(first, first + 100)))
    taken: list[list[int]] = [[] for _ in lanes]
    while any(len(each) < 3_000 for each in taken):
        threads.work_until(lambda: any(lane.has_news for lane in lanes))
        for lane, each in zip(lanes, taken, strict=True):
            for number in lane.take():
                each.append(number)
                time.sleep(0)
    assert taken == [list(range(3_000))] * 3
    threads.close()


@pytest.mark.parametrize(("n", "pieces"), [(0, 3), (1, 3), (7, 3), (9, 1), (100, 7)])
def test_shares_are_all_and_of_one_size(n: int, pieces: int) -> None:
    cut = shares(n, pieces)
    assert [at for share in cut for at in range(n)[share]] == list(range(n))
    assert len(cut) <= pieces
    sizes = [share.stop - share.start for share in cut]
    assert max(sizes) - min(sizes) <= 1


class _Slow(TableWriter):
    def __init__(self, fails_at: int | None = None) -> None:
        self.rows = 0
        self.done: list[object] = []
        self._fails_at = fails_at

    def write(self, batch: pa.RecordBatch) -> None:
        time.sleep(0.001)
        if self._fails_at == len(self.done):
            raise OSError("planted")
        self.done.append(batch.column(0)[0].as_py())

    def close(self) -> None:
        self.done.append("closed")

    def abandon(self, error: BaseException) -> None:
        self.done.append("abandoned")


def test_batches_are_written_behind_in_their_order() -> None:
    slow = _Slow()
    with WriterBehind(slow) as writer:
        for at in range(30):
            writer.write(pa.record_batch({"x": [at]}))
    assert slow.done == [*range(30), "closed"]
    assert helpers() == []


def _write_eight(slow: _Slow) -> None:
    with WriterBehind(slow) as writer:
        for at in range(8):
            writer.write(pa.record_batch({"x": [at]}))


def test_an_error_of_a_writer_behind_is_raised_and_nothing_is_closed_as_whole() -> None:
    slow = _Slow(fails_at=3)
    with pytest.raises(OSError, match="planted"):
        _write_eight(slow)
    assert slow.done[:3] == [0, 1, 2]
    assert slow.done[-1] == "abandoned"
    assert "closed" not in slow.done
    assert helpers() == []


def test_little_room_bounds_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spojoin.embedded.outputs.ROOM_BYTES", 100)
    slow, at_most = _Slow(), 0
    with WriterBehind(slow) as writer:
        for at in range(40):
            writer.write(pa.record_batch({"x": [at] * 5}))
            at_most = max(at_most, at + 1 - len(slow.done))
    assert at_most <= 5
