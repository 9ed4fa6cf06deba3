"""What a worker spends counts for the frame that it was spent on, however far the log has gone on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spojoin.embedded.frame_times import FrameTimes
from spojoin.protocol.machine import Emit
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Part


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Spends seconds of the thread's time, which passes by nothing else."""
    spent = [0]
    monkeypatch.setattr("time.thread_time", lambda: spent[0])

    def work(seconds: int) -> None:
        spent[0] += seconds

    return work


def part(frame_id: int) -> Emit:
    return Emit(Topic.MATCHES, 1, Part(0, frame_id, 1, 0, 8, ()))


def parts(busy: Callable[[int], None], *made: tuple[int, int]) -> Iterator[Emit]:
    """Parts of frames, each after so many seconds of work."""
    for frame_id, seconds in made:
        busy(seconds)
        yield part(frame_id)


def test_a_part_counts_for_its_frame_and_what_is_done_with_it_for_none(busy):
    times = FrameTimes()
    for frame in (0, 1):
        times.begin(frame)
    for _ in times.worker(parts(busy, (0, 3), (0, 4), (1, 1))):
        busy(50)
    for frame in (0, 1):
        times.end(frame, 8, is_last=True)
    assert list(times._slowest) == [7, 1]


def test_the_slowest_of_a_frames_workers_counts(busy):
    times = FrameTimes()
    times.begin(0)
    for seconds in (0, 7, 4):
        list(times.worker(parts(busy, (0, seconds))))
    times.end(0, 8, is_last=True)
    assert list(times._slowest) == [7]


def test_a_frame_without_workers_took_none_of_their_time():
    times = FrameTimes()
    assert times.figures()["slowest_worker_ms"] == {"p50": 0.0, "p99": 0.0, "max": 0.0}
    times.begin(0)
    times.end(0, 8, is_last=True)
    assert times.figures()["slowest_worker_ms"] == {"p50": 0.0, "p99": 0.0, "max": 0.0}
