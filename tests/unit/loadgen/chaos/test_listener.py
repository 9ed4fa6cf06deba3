"""What comes out is followed from its beginning, over a log in memory."""

import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from loadgen.chaos.listener import ResultListener
from loadgen.load.messages import ipc_bytes
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog

RESULTS = LogPartition("q.results", 0)


def value(first, end, key_shift=0):
    seqs = np.arange(first, end)
    keys = pa.array([str(seq + key_shift) for seq in seqs.tolist()]).dictionary_encode()
    return ipc_bytes(pa.record_batch({"seq": seqs, "key": keys, "as_left": seqs, "as_right": seqs % 7}))


def record(frame, begin, end, *, is_last=True):
    place = {"frame": frame, "begin": begin, "end": end, "last": int(is_last)}
    return [(f"spojoin-{name}", b"%d" % number) for name, number in place.items()]


@contextmanager
def heard(records, judge=lambda _answers: None):
    """All records are there before anybody listens."""
    log = MemoryLog(ManualClock())
    log.create_topics({RESULTS.topic: 1})
    writer = log.writer()
    for headers, content in records:
        writer.append(RESULTS, content, headers)
    with ResultListener(log, RESULTS.topic, judge) as listener:
        deadline = time.monotonic() + 30
        while listener._positions[RESULTS] < len(records) and time.monotonic() < deadline and listener._error is None:
            time.sleep(0.01)
        yield listener


GOOD = [(record(0, 0, 5), value(0, 5)), (record(1, 0, 2, is_last=False), value(5, 7)), (record(1, 2, 4), value(7, 9))]


def test_results_are_followed_and_what_comes_twice_is_dropped():
    with heard([*GOOD[:2], GOOD[1], GOOD[2]]) as listener:
        assert [arrival.tuples for arrival in listener.arrivals] == [5, 7, 9]
        assert (listener.tuples, listener.resent, listener.is_exact) == (9, 1, True)


def test_a_missing_result_is_found():
    with heard([GOOD[0], GOOD[2]]) as listener:
        assert not listener.is_exact
        assert "missing" in listener.differences[0]


def test_a_wrong_key_is_found():
    with heard([(record(0, 0, 5), value(0, 5, key_shift=1))]) as listener:
        assert (listener.wrong, listener.is_exact) == (5, False)


def test_what_the_judge_rejects_is_counted():
    with heard(GOOD, lambda answers: answers.seqs == 6) as listener:
        assert listener.wrong == 1
        assert "tuple 6" in listener.differences[0]


def of_generation(number, headers):
    return [*headers, ("spojoin-generation", b"%d" % number)]


def test_a_query_that_replaces_another_goes_on_behind_its_last_frame_with_frames_of_its_own():
    """Rows that it only reads again have positions, but no answers."""
    again = of_generation(2, record(0, 0, 9)), value(9, 9)
    after = of_generation(2, record(1, 0, 3)), value(9, 12)
    late = of_generation(1, record(3, 0, 2)), value(9, 11)
    with heard([*GOOD, again, late, after]) as listener:
        assert (listener.tuples, listener.resent, listener.generation, listener.is_exact) == (12, 1, 2, True)
    with heard([*GOOD[:2], again]) as listener:
        assert not listener.is_exact


def test_what_ends_the_thread_is_raised():
    def fail(_answers):
        raise ConfigurationError("no judge")

    with heard(GOOD, fail) as listener, pytest.raises(ConfigurationError, match="no judge"):
        listener.check()
