"""The calibration phase: what it counts, when it ends, and what a successor reads from the log."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from spojoin.kernels.spread import spread
from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.calibration import KEYS_TOLD, frequencies
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import FREQUENCY_BUCKETS, Frame, Rows

TEXT = """
name: q
streams:
  s: {schema: {k: long}}
  t: {schema: {k: long}}
sql: SELECT * FROM s AS l JOIN t AS r ON l.k = r.k WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""
QUERY = parse_query(TEXT + "layout: {name: hp, calibration: 10}\n")


@pytest.mark.parametrize("keys", [3, 500])
def test_shares_of_tuples_and_of_pairs(keys):
    rng = np.random.default_rng(keys)
    left, right = (Counter(rng.integers(-keys, 0, 4_000).tolist()) for _ in range(2))
    found = frequencies([left, right])
    listed = sorted(sorted(left | right, key=lambda k: (-(left[k] + right[k]), k))[:KEYS_TOLD])
    assert found.codes.tolist() == listed
    tuples, pairs = np.zeros(len(found)), np.zeros(len(found))
    for key in left | right:
        bucket = len(listed) + int(spread(np.array([key]), FREQUENCY_BUCKETS)[0])
        item = listed.index(key) if key in listed else bucket
        tuples[item] += left[key] + right[key]
        pairs[item] += left[key] * right[key]
    np.testing.assert_allclose(found.tuples / 2**32, tuples / tuples.sum(), atol=1e-6)
    np.testing.assert_allclose(found.pairs / 2**32, pairs / pairs.sum(), atol=1e-6)


def test_keys_without_a_partner_have_no_pairs():
    found = frequencies([Counter({1: 5}), Counter({2: 3})])
    assert found.codes.tolist() == [1, 2]
    assert not found.pairs.any()


class Log:
    """Routers, one after another, over one log of frames."""

    def __init__(self, query=QUERY):
        self.records = []
        self.query = query
        self.read = 0

    def router(self, number, keep=0):
        """A router that has claimed the log, without the first `keep` records: no window needs them."""
        router = RouterMachine(
            self.query, START, RouterConfig(f"r{number}", 2, frame_tuples=4, credits_frames=UNLIMITED)
        )
        router.on_inputs([(0, 0), (1, 0)])
        for offset, record in enumerate(self.records):
            if offset >= keep:
                self._take(router.on_record(Topic.FRAMES, 0, offset, record), router)
        self._take(router.on_caught_up(), router)
        self._take(router.on_chosen(), router)
        return router

    def feed(self, router, stream, first, keys):
        nothing = np.zeros(len(keys), np.int64)
        offsets = first + np.arange(len(keys), dtype=np.int64)
        codes = (np.array(keys, np.int64),)
        rows = Rows(offsets, nothing, first + len(keys), codes, None, pa.array(keys), nothing)
        self._take(router.on_rows(stream, 0, rows), router)
        self._take(router.flush(), router)

    def _take(self, actions, router):
        for action in actions:
            if isinstance(action, Emit) and action.topic is Topic.FRAMES:
                self.records.append(action.record)
                self._take(router.on_record(Topic.FRAMES, 0, len(self.records) - 1, action.record), router)

    def frames(self):
        return [record for record in self.records if isinstance(record, Frame) and record.count]


def test_frames_carry_no_guidance_until_enough_is_counted_and_then_always_the_same():
    log = Log()
    router = log.router(0)
    for i in range(5):
        log.feed(router, 0, 4 * i, [7, 7, 8, 9])
    has_guidance = [frame.guidance is not None for frame in log.frames()]
    assert has_guidance == [False, False, False, True, True]
    last = log.frames()[-1].guidance.frequencies
    assert last is log.frames()[-2].guidance.frequencies
    assert last.codes.tolist() == [7, 8, 9]
    np.testing.assert_allclose(last.tuples[:3] / 2**32, [0.5, 0.25, 0.25], atol=1e-6)


def test_a_successor_takes_the_guidance_of_the_log():
    log = Log(parse_query(TEXT.replace("'100'", "'4'") + "layout: {name: hp, calibration: 10}\n"))
    first = log.router(0)
    for i in range(4):
        log.feed(first, 0, 4 * i, [7, 7, 8, 9])
    known = log.frames()[-1].guidance.frequencies
    log.feed(log.router(1, keep=len(log.records) - 2), 0, 16, [1, 1, 1, 1])
    assert log.frames()[-1].guidance.frequencies is known


def test_a_successor_goes_on_counting_while_the_log_has_no_guidance():
    log = Log()
    log.feed(log.router(0), 0, 0, [7, 7, 7, 7, 7, 7])
    second = log.router(1)
    log.feed(second, 0, 6, [8, 8, 8, 8])
    log.feed(second, 0, 10, [9])
    assert log.frames()[-1].guidance.frequencies.codes.tolist() == [7, 8]


def test_other_layouts_count_nothing():
    log = Log(parse_query(TEXT + "layout: kp\n"))
    router = log.router(0)
    for i in range(4):
        log.feed(router, 0, 4 * i, [7, 7, 8, 9])
    assert log.frames()
    assert not any(frame.guidance for frame in log.frames())
