from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.promises.data import Columns, by_slot, check_counts, columns, expected_counts, self_join
from loadgen.promises.encoding import and_bit_counts, bit_arrays
from loadgen.promises.probe import BitmapNodes, filled
from loadgen.promises.scan import SCANS, TILE, count_both

VALUES = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 7.0])
PAIRS = st.lists(st.tuples(VALUES, VALUES), max_size=40)


def counts(stored: Sequence[tuple[float, float]], probe: tuple[float, float]) -> tuple[int, int]:
    """Matches of a probe as left (l.a > r.a, l.b < r.b) and as right side, in plain Python."""
    x, y = probe
    return sum(x > a and y < b for a, b in stored), sum(a > x and b < y for a, b in stored)


def as_columns(pairs: list[tuple[float, float]]) -> Columns:
    table = np.array(pairs, np.float64).reshape(-1, 2)
    return Columns(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]))


@pytest.mark.parametrize("name", SCANS)
@given(stored=PAIRS, probes=st.lists(st.tuples(VALUES, VALUES), min_size=TILE, max_size=TILE))
@settings(max_examples=30, deadline=None)
def test_scans_agree_with_a_loop(name: str, stored: list, probes: list) -> None:
    as_left, as_right = count_both(SCANS[name], as_columns(stored), as_columns(probes))
    assert list(zip(as_left.tolist(), as_right.tolist(), strict=True)) == [counts(stored, p) for p in probes]


def test_a_wrong_count_is_found() -> None:
    data = columns("ties", 20)
    rows = [expected_counts(data, seq, 10, 5) for seq in range(20)]
    table = pa.table({"seq": range(20), "as_left": [r[0] for r in rows], "as_right": [r[1] for r in rows]})
    check_counts(data, 10, 5, table, 20)
    wrong = table.set_column(1, "as_left", pa.array([r[0] + (seq == 13) for seq, r in enumerate(rows)]))
    with pytest.raises(AssertionError, match="row 13"):
        check_counts(data, 10, 5, wrong, 20)


@given(
    first=st.lists(st.integers(-3, 3), max_size=150),
    bounds=st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=5),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_bit_arrays_agree_with_a_loop(first: list[int], bounds: list, data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(-3, 3), min_size=len(first), max_size=len(first)))
    ends = data.draw(st.lists(st.integers(0, len(first)), min_size=len(bounds), max_size=len(bounds)))
    lo, hi = (np.array([bound[side] for bound in bounds], np.int64) for side in (0, 1))
    words = [bit_arrays(np.array(stored, np.int64), lo, hi) for stored in (first, second)]
    for q, (least, greatest) in enumerate(bounds):
        bits = [bool(int(words[0][q, j >> 6]) >> (j & 63) & 1) for j in range(len(first))]
        assert bits == [least <= code <= greatest for code in first]
    both = [
        sum(least <= a <= greatest and least <= b <= greatest for a, b in zip(first[:end], second[:end], strict=True))
        for (least, greatest), end in zip(bounds, ends, strict=True)
    ]
    assert and_bit_counts(words[0], words[1], np.array(ends, np.int64)).tolist() == both


@pytest.mark.parametrize("workload", ["ties", "taxi"])
def test_index_and_bitmaps_of_a_window_agree_with_a_scan(workload: str) -> None:
    data = columns(workload, 3_001 + 64)
    query = self_join(3_000, 300)
    stored, probes = data[:3_001], data[3_001:]
    index = filled(query, by_slot(query, stored), 300, 128)
    assert index.tuples == 3_001
    expected = count_both(SCANS["NumPy"], stored, probes)
    by_role = index.evaluate(by_slot(query, probes), np.zeros(1, np.int64))
    for matches, found in zip(by_role, expected, strict=True):
        assert matches.counts.tolist() == found.tolist()
    BitmapNodes.of(query, stored, 300).check(probes)
