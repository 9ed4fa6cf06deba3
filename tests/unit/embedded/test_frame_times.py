"""What a worker spends counts for the frame that it was spent on, however far the log has gone on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

from spojoin.embedded.frame_times import FrameTimes
from spojoin.protocol.machine import Emit
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Part

WORK_S = 0.03


def part(frame_id: int) -> Emit:
    return Emit(Topic.MATCHES, 1, Part(0, frame_id, 1, 0, 8, ()))


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def parts(*made: tuple[int, float]) -> Iterator[Emit]:
    """Parts of frames, each after so many seconds of work."""
    for frame_id, seconds in made:
        busy(seconds)
        yield part(frame_id)


def test_a_part_counts_for_its_frame_and_what_is_done_with_it_for_none():
    times = FrameTimes()
    for frame in (0, 1):
        times.begin(frame)
    for _ in times.worker(parts((0, WORK_S), (0, WORK_S), (1, 0.0))):
        busy(WORK_S)
    for frame in (0, 1):
        times.end(frame, 8, is_last=True)
    first, second = times._slowest
    assert 2 * WORK_S <= first < 3 * WORK_S
    assert second < WORK_S


def test_the_slowest_of_a_frames_workers_counts():
    times = FrameTimes()
    times.begin(0)
    for seconds in (0.0, 2 * WORK_S, WORK_S):
        list(times.worker(parts((0, seconds))))
    times.end(0, 8, is_last=True)
    assert 2 * WORK_S <= times._slowest[0] < 3 * WORK_S


def test_a_frame_without_workers_took_none_of_their_time():
    times = FrameTimes()
    assert times.figures()["slowest_worker_ms"] == {"p50": 0.0, "p99": 0.0, "max": 0.0}
    times.begin(0)
    times.end(0, 8, is_last=True)
    assert times.figures()["slowest_worker_ms"] == {"p50": 0.0, "p99": 0.0, "max": 0.0}
