"""Workers of columns by key together find what one worker finds, while keys become hot and cool down."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.grid import grid_of
from spojoin.protocol.key_columns import key_slots
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import HotKeys, Rows
from tests.support.routed_log import RoutedLog

KEYS, ROWS = 4, 160


def query(condition="l.a = r.a", output="count", slide=1):
    window = f"WINDOW AS (SLIDE INTERVAL '{slide}' ON '40')"
    return parse_query(
        f"name: q\nstreams:\n  s: {{schema: {{a: int, b: int}}}}\noutput: {output}\n"
        f"sql: SELECT * FROM s AS l JOIN s AS r ON {condition} {window}\n"
    )


class Log(RoutedLog):
    """Frames and batches of a router to which plans call random keys hot."""

    def __init__(self, joined, columns, by_key, seed, rows=1):
        rng = np.random.default_rng(seed)
        sizes = {"frame_tuples": 4, "batch_tuples": 4, "handover_frames": 1, "credits_frames": 1 << 20}
        config = RouterConfig("r", rows * columns, columns=columns, columns_by_key=by_key, **sizes)
        super().__init__(joined, config)
        self.query, router = joined, self.router
        slot = key_slots(joined)[0].stored
        codes = [rng.integers(0, KEYS if n == slot else 3, ROWS) for n in range(len(joined.streams[0].keys))]
        for version, first in enumerate(range(0, ROWS, 8)):
            hot = np.flatnonzero(rng.random(KEYS) < 0.5)
            self.take(router.on_record(Topic.PLAN, 0, 0, HotKeys(version, 0, {(0, slot): (hot, np.ones_like(hot))})))
            some = slice(first, first + 8)
            numbers, nothing = np.arange(first, first + 8), np.zeros(8, np.int64)
            some_codes = tuple(column[some] for column in codes)
            self.take(
                router.on_rows(0, 0, Rows(numbers, nothing, first + 8, some_codes, None, pa.array(numbers), nothing))
            )

    def parts(self, worker, begin_at=START):
        """A worker's parts by frame and part; it begins to answer at a result position, as after a restart."""
        machine, found = PoJoinMachine(self.query, worker, begin_at), defaultdict(list)
        barrier, first, *frames = self.records[Topic.FRAMES]
        reads = [(Topic.FRAMES, barrier), (Topic.FRAMES, first)]
        reads += [(Topic.BATCHES, batch) for batch in self.records[Topic.BATCHES]]
        for topic, record in (*reads, *((Topic.FRAMES, frame) for frame in frames)):
            for action in machine.on_record(topic, 0, 0, record):
                found[action.record.frame_id, action.record.part].append(action.record)
        self.tuples = machine.state_tuples()
        return found


def together(parts):
    """By frame and direction, how many partners each probe has in all columns, and which."""
    found = defaultdict(lambda: defaultdict(lambda: [0, []]))
    for (frame, _), chunks in parts.items():
        for number in range(len(chunks[0].directions)):
            for probe, (count, partners) in enumerate(each for c in chunks for each in listed(c.directions[number])):
                of_probe = found[frame, number][probe]
                of_probe[0] += count
                of_probe[1] = sorted([*of_probe[1], *partners])
    return {key: dict(probes) for key, probes in found.items()}


def listed(matches):
    """The count of each probe, and its partners if there are any in the answer."""
    if matches.partners is None:
        return [(count, []) for count in matches.counts.tolist()]
    partners = np.split(matches.partners, matches.offsets[1:-1])
    return [(count, some.tolist()) for count, some in zip(matches.counts.tolist(), partners, strict=False)]


QUERIES = [
    query(),
    query("l.a = r.a AND l.b < r.b", slide=8),
    query("l.b <> r.b AND l.a = r.a", "pairs"),
    query("ABS(l.b - r.b) < 2 AND l.a = r.a", "pairs", slide=20),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("columns", "rows"), [(2, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("joined", QUERIES)
def test_columns_by_key_find_what_one_worker_finds(joined, columns, rows, seed):
    log = Log(joined, columns, True, seed, rows)
    assert any(key.end <= 160 for frame in log.frames for key in frame.spread), "keys cool down"
    parts = {}
    for worker in range(rows * columns):
        parts |= log.parts(worker)
    assert together(parts) == together(Log(joined, 1, False, seed).parts(0))


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_restarts_anywhere_gives_the_same_parts(seed, column):
    log = Log(query(output="pairs"), 2, True, seed)
    whole = log.parts(column)
    for frame in log.frames[::3]:
        again = log.parts(column, ResultPosition(frame.frame_id, 0))
        late = {key: parts for key, parts in whole.items() if key[0] >= frame.frame_id}
        assert together(again) == together(late)


def test_columns_by_key_divide_the_tuples():
    log = Log(query(), 2, True, 1)
    tuples = []
    for worker in range(2):
        log.parts(worker)
        tuples.append(log.tuples)
    one = Log(query(), 1, False, 1)
    one.parts(0)
    assert sum(tuples) <= one.tuples + 8
    assert min(tuples) > 0


def test_one_column_holds_all_tuples_by_key_or_not():
    frame = Log(query(), 1, True, 1).frames[0]
    assert frame.columns_by_key
    assert not grid_of(frame).by_key
