"""How far windows reach over blocks, against a loop over rows: no block that holds a partner is left out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.shares import WindowReach
from spojoin.windows import RowWindow, TimeWindow, Window

#: A row: whether it is in each of two streams, and the time since the row before.
ROW = st.tuples(st.booleans(), st.booleans(), st.integers(0, 4))
HISTORIES = st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=1, max_size=8)


@st.composite
def windows(draw) -> Window:
    slide, slides = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return draw(st.sampled_from((RowWindow, TimeWindow)))(slide * slides, slide)


def placed(history):
    """Of each row its block, its streams and its time, in order."""
    time, found = 0, []
    for block, rows in enumerate(history):
        for left, right, passed in rows:
            time += passed
            found.append((block, (left, right), time))
    return found


def blocks_of(history) -> HistoryBlocks:
    rows = placed(history)
    each = [[row for row in rows if row[0] == block] for block in range(len(history))]
    members = [[sum(streams[s] for _, streams, _ in some) for s in (0, 1)] for some in each]
    lengths = np.array([len(some) for some in each], np.int64)
    return HistoryBlocks(
        lengths[:, None],
        np.array(members, np.int64),
        lengths,
        lengths,
        np.array([some[0][2] for some in each], np.int64),
        np.array([some[-1][2] for some in each], np.int64),
        int(lengths.sum()),
    )


def finds(rows, later: int, earlier: int, stream: int, window: Window) -> bool:
    """Whether the window of one row over a stream may hold an earlier row of it."""
    if not rows[earlier][1][stream]:
        return False
    if window.needs_time:
        return rows[later][2] - rows[earlier][2] <= window.length
    between = sum(streams[stream] for _, streams, _ in rows[earlier:later])
    return between <= window.length


@given(history=HISTORIES, window=windows(), stream=st.integers(0, 1), data=st.data())
def test_every_block_with_a_partner_is_within_reach(history, window, stream, data):
    rows, blocks = placed(history), blocks_of(history)
    reach = WindowReach({stream: window}, {stream: window})
    begin = data.draw(st.integers(0, len(history) - 1))
    end = data.draw(st.integers(begin + 1, len(history)))
    own = [place for place, row in enumerate(rows) if begin <= row[0] < end]
    first, last = reach.first(blocks, begin), reach.last(blocks, end)
    behind = [rows[e][0] for o in own for e in range(o) if finds(rows, o, e, stream, window)]
    ahead = [rows[later][0] for o in own for later in range(o, len(rows)) if finds(rows, later, o, stream, window)]
    assert first <= min(behind, default=begin)
    assert last > max(ahead, default=-1)


@given(history=HISTORIES, window=windows(), stream=st.integers(0, 1))
def test_no_block_is_read_that_no_window_reaches(history, window, stream):
    """The last row of each earlier block that is read lies within the window of the first own row."""
    rows, blocks = placed(history), blocks_of(history)
    firsts = WindowReach({stream: window}, {}).firsts(blocks, np.arange(len(history)))
    for begin, first in enumerate(firsts.tolist()):
        own = next(place for place, row in enumerate(rows) if row[0] == begin)
        for block in range(first, begin):
            last = max(place for place, row in enumerate(rows) if row[0] == block)
            if window.needs_time:
                assert rows[own][2] - rows[last][2] <= window.length
            else:
                assert sum(streams[stream] for _, streams, _ in rows[last + 1 : own]) < window.length
