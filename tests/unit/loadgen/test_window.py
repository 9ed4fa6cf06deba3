"""The window by its definition is that which is found by walking along a stream, in Python and in SQL."""

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from loadgen.window import window_begin, window_begin_sql, window_end, window_of


@given(at=st.integers(-60, 60), slide=st.integers(1, 8), slides=st.integers(1, 5))
def test_the_window_moves_on_by_whole_slides(at, slide, slides):
    length = slides * slide
    reached = -80 * slide
    while reached < at:
        reached += slide
    assert window_begin(at, length, slide) == reached - length
    assert duckdb.sql(f"SELECT {window_begin_sql(f'({at})', length, slide)}").fetchall() == [(reached - length,)]
    inside = [place for place in range(-80, 160) if window_begin(place, length, slide) <= at]
    assert max(inside) == window_end(at, length, slide)
    if at >= 0:
        assert range(at)[window_of(at, length, slide)] == range(max(reached - length, 0), at)
