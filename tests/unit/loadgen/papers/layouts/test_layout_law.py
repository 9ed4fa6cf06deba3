"""The law of layouts: for any two tuples, exactly one worker stores the earlier and searches for the later."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.papers.layouts import catalog as described
from loadgen.papers.layouts.layout import FrameShare, Layout
from loadgen.papers.layouts.machine import HANDSHAKE, LAYOUTS
from spojoin.evaluation.choices import layout
from spojoin.model import DEFAULT_LAYOUT
from spojoin.query.load import parse_query
from spojoin.wire.records import NO_GUIDANCE
from tests.support.layout_frames import frame_of, shares

SELF = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
)
CROSS = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int}}\n  t: {schema: {a: int}}\n"
    "sql: SELECT * FROM s AS l JOIN t AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '40')\n"
)


@st.composite
def logs(draw):
    """Consecutive frames, of one stream or two, from any index on."""
    query = draw(st.sampled_from([SELF, CROSS]))
    seq, firsts = draw(st.integers(0, 9)), [draw(st.integers(0, 9)) for _ in query.streams]
    frames = []
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.integers(0, 9))
        streams = [draw(st.integers(0, len(query.streams) - 1)) for _ in range(size)]
        codes = [draw(st.integers(-2, 2)) for _ in range(size)]
        hot = draw(st.sampled_from([[], [draw(st.integers(0, 1)) for _ in range(size)]]))
        guidance = np.array(hot, np.uint8)
        fields = {"frame_id": number, "first_seq": seq, "guidance": guidance}
        frames.append(frame_of(streams, codes, firsts=firsts, **fields))
        seq += size
        firsts = [first + streams.count(stream) for stream, first in enumerate(firsts)]
    return query, frames


def holds(found, is_self):
    pairs = [(u, t) for t in range(len(found)) for u in range(t) if is_self or found[u][0] != found[t][0]]
    return all(len(found[u][1] & found[t][2]) == 1 for u, t in pairs)


def made(name, query, **options):
    given = {option: str(value) for option, value in options.items()}
    return LAYOUTS[name](dataclasses.replace(query, layout=layout(name, given)))


def test_layouts_and_descriptions_match():
    assert {DEFAULT_LAYOUT, HANDSHAKE, *LAYOUTS} == described.LAYOUTS.keys()
    assert all(about.cites and about.about for about in described.LAYOUTS.values())


@pytest.mark.parametrize("name", sorted(LAYOUTS))
@given(log=logs(), workers=st.integers(1, 5))
def test_one_worker_meets_any_two_tuples(name, log, workers):
    query, frames = log
    if name != "sta":  # whose guidance it is
        frames = [dataclasses.replace(frame, guidance=NO_GUIDANCE) for frame in frames]
    assert holds(shares(made(name, query), frames, len(query.streams), workers), query.is_self)


@given(log=logs(), workers=st.integers(1, 5), hot_workers=st.integers(1, 6), choices=st.integers(1, 2))
def test_sta_holds_it_with_any_options(log, workers, hot_workers, choices):
    query, frames = log
    layout_ = made("sta", query, hot_workers=hot_workers, choices=choices)
    assert holds(shares(layout_, frames, len(query.streams), workers), query.is_self)


class Greedy(Layout):
    """Breaks the law: the first worker stores tuples that it must not store."""

    def share(self, frame, stream, worker, workers):
        share = LAYOUTS["split_join"](self.query).share(frame, stream, worker, workers)
        return FrameShare(share.stored | (worker == 0), share.asked)


def test_a_layout_that_breaks_the_law_is_found():
    frames = [frame_of([0] * 6, range(6))]
    assert not holds(shares(Greedy(SELF), frames, 1, 2), is_self=True)


# --- what else each one promises --------------------------------------------------------------------------------------


def test_sta_keeps_hot_and_cold_apart_and_balanced():
    n = 4_000
    hot = [int(i % 5 < 2) for i in range(n)]
    frame = frame_of([0] * n, range(n), guidance=np.array(hot, np.uint8))
    stored = np.stack([made("sta", SELF).share(frame, 0, worker, 6).stored for worker in range(6)])
    is_hot = np.array(hot, bool)
    assert not stored[2:, is_hot].any()
    assert not stored[:2, ~is_hot].any()
    assert (stored[:2].sum(axis=1) == is_hot.sum() / 2).all()
    two, one = stored[2:].sum(axis=1), made("sta", SELF, choices=1)
    drawn = np.stack([one.share(frame, 0, worker, 6).stored for worker in range(2, 6)]).sum(axis=1)
    assert np.ptp(two) < np.ptp(drawn), "the less loaded of two is more even than one drawn"
    assert np.ptp(two) <= 8
