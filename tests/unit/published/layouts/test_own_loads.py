"""Pairs that the product's own layout answers for, worker by worker, against a loop over all of them."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.embedded.engine import Engine
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.own_loads import pairs_between
from spojoin.query.load import parse_query
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.wire.records import Batch, Frame

WORKERS, TUPLES = 3, 700
SELF = "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b WINDOW AS (SLIDE INTERVAL '{}' ON '{}')\n"
CROSS = "sql: SELECT * FROM s AS l JOIN t AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '{}' ON '{}')\n"
TIMED = "{schema: {a: int, b: int, at: timestamp}, time: at}"
QUERIES = {
    "tuple by tuple": ("s: {schema: {a: int, b: int}}", SELF.format(1, 150)),
    "in slides": ("s: {schema: {a: int, b: int}}", SELF.format(64, 192)),
    "less than a batch": ("s: {schema: {a: int, b: int}}", SELF.format(1, 5)),
    "time": (f"s: {TIMED}", SELF.format("1 ms", "90 ms")),
    "two streams": (f"s: {TIMED}\n  t: {TIMED}", CROSS.format("1 ms", "90 ms")),
}
APART = "sql: SELECT * FROM s AS l JOIN t AS r ON l.a < r.a AND r.at BETWEEN l.at {} AND l.at {}\n"
QUERIES |= {
    "interval": (f"s: {TIMED}\n  t: {TIMED}", APART.format("- INTERVAL '60 ms'", "+ INTERVAL '20 ms'")),
    "partners on one side": (f"s: {TIMED}\n  t: {TIMED}", APART.format("+ INTERVAL '20 ms'", "+ INTERVAL '90 ms'")),
}
NOBODY = -1


def seen(name):
    """The engine after all rows are fed, and the frames and batches that passed."""
    streams, sql = QUERIES[name]
    order = "order: event_time\n" if "time:" in streams else ""
    query = parse_query(f"name: q\nstreams:\n  {streams}\n{order}{sql}")
    records = []

    def watch(record):
        if isinstance(record, Frame | Batch):
            records.append(record)
        return record

    config = RouterConfig("r", WORKERS, frame_tuples=40, batch_tuples=32, credits_frames=UNLIMITED)
    engine, rng = Engine(query, config, watch), np.random.default_rng(3)
    for begin in range(0, TUPLES, 50):
        for stream in range(len(query.streams)):
            columns = {"a": rng.integers(0, 20, 50), "b": rng.integers(0, 20, 50)}
            if query.needs_time:
                steps = np.sort(rng.integers(0, 50, 50)) + begin
                columns["at"] = pa.array(steps, pa.timestamp("ms"))
            list(engine.feed(stream, pa.record_batch(columns)))
    list(engine.flush())
    return engine, records


def owners(records):
    """The worker of each tuple in a batch, by stream and index."""
    return {
        (batch.stream, index): batch.batch_id % WORKERS
        for batch in records
        if isinstance(batch, Batch)
        for index in range(batch.first, batch.end)
    }


def counted(records):
    """Pairs by the worker that answers for them, those of the mutable part under NOBODY."""
    of, found = owners(records), Counter()
    for frame in (record for record in records if isinstance(record, Frame)):
        for target, own in enumerate(frame.slices):
            probes = frame.slices[target if len(frame.slices) == 1 else 1 - target]
            for number, position in enumerate(probes.positions):
                lower = int(probes.lower[number if len(probes.lower) > 1 else 0])
                before = own.first_index + int(np.sum(own.positions < position))
                for index in range(lower, before):
                    found[of[target, index] if index < own.handover_index else NOBODY] += 1
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_pairs_equal_those_of_a_loop(name):
    engine, records = seen(name)
    reported, expected = engine.layout_measures(), counted(records)
    assert [load["comparisons"] for load in reported["per_worker"]] == [expected[worker] for worker in range(WORKERS)]
    assert reported["mutable"]["comparisons"] == expected[NOBODY] > 0


def held(frame):
    """Tuples in the mutable part after a frame."""
    return sum(piece.first_index + len(piece) - piece.handover_index for piece in frame.slices)


@pytest.mark.parametrize("name", QUERIES)
def test_the_size_of_the_mutable_part_is_reported(name):
    engine, records = seen(name)
    frames = [record for record in records if isinstance(record, Frame)]
    joiners = [machine for machine in engine._readers[Topic.FRAMES] if isinstance(machine, MutableMachine)]
    stores = [store for joiner in joiners for store in joiner._stores]
    tails = [tail for store in stores for tail in (*store._codes.values(), store._seqs, store._times)]
    a_tuple = sum(8 * len(tail) for tail in tails) // held(frames[-1])
    reported = engine.layout_measures()["mutable"]
    assert reported["tuples_max"] == max(map(held, frames)) > held(frames[-1]) > 0
    assert reported["bytes_max"] == reported["tuples_max"] * a_tuple


def test_every_worker_reads_the_batches_and_one_keeps_each():
    engine, records = seen("tuple by tuple")
    stored = Counter(owners(records).values())
    reported = engine.layout_measures()
    for worker, load in enumerate(reported["per_worker"]):
        assert load["stored"] == stored[worker] > 0
        assert load["messages"] == TUPLES + stored[worker]
        assert load["log_messages"] == TUPLES + sum(stored.values())


def test_memory_is_the_most_ever_held():
    engine, _ = seen("time")
    before = engine.index_bytes
    rows = {"a": [1] * 80, "b": [1] * 80, "at": pa.array(range(10_000, 10_080), pa.timestamp("ms"))}
    list(engine.feed(0, pa.record_batch(rows)))
    list(engine.flush())
    reported = engine.layout_measures()
    assert engine.index_bytes < before <= reported["memory_bytes"], "all that was held has left the window"
    assert reported["memory_bytes"] == sum(load["bytes_max"] for load in reported["per_worker"])


ASCENDING = st.lists(st.integers(0, 30), min_size=1, max_size=12).map(sorted)


def pairs_of_a_loop(edges, lower):
    between = [range(*both) for both in pairwise(edges)]
    return [sum(index >= first for first in lower for index in each) for each in between]


@given(edges=ASCENDING, lower=st.lists(st.integers(0, 30), max_size=12).map(sorted))
def test_pairs_between_edges(edges, lower):
    found = pairs_between(np.array(edges, np.int64), np.array(lower, np.int64), len(lower))
    assert found.tolist() == pairs_of_a_loop(edges, lower)


@given(edges=ASCENDING, lower=st.integers(0, 30), probes=st.integers(0, 9))
def test_pairs_between_edges_where_all_windows_begin_together(edges, lower, probes):
    found = pairs_between(np.array(edges, np.int64), np.array([lower], np.int64), probes)
    assert found.tolist() == pairs_of_a_loop(edges, [lower] * probes)
