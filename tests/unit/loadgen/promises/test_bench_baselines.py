from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.promises.batches import batches, filled
from loadgen.promises.bit_arrays import and_counts, bit_arrays
from loadgen.promises.bitmap_probe import BitmapNodes
from loadgen.promises.data import Columns, by_slot, columns, self_join
from loadgen.promises.scans import SCANS, TILE, count_both
from loadgen.promises.window import check_counts, expected_counts
from tests.support.naive_bench import counts, window_of

VALUES = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 7.0])
PAIRS = st.lists(st.tuples(VALUES, VALUES), max_size=40)


def as_columns(pairs: list[tuple[float, float]]) -> Columns:
    table = np.array(pairs, np.float64).reshape(-1, 2)
    return Columns(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]))


@pytest.mark.parametrize("name", SCANS)
@given(stored=PAIRS, probes=st.lists(st.tuples(VALUES, VALUES), min_size=TILE, max_size=TILE))
@settings(max_examples=30, deadline=None)
def test_scans_agree_with_a_loop(name: str, stored: list, probes: list) -> None:
    as_left, as_right = count_both(SCANS[name], as_columns(stored), as_columns(probes))
    assert list(zip(as_left.tolist(), as_right.tolist(), strict=True)) == [counts(stored, p) for p in probes]


@pytest.mark.parametrize("name", SCANS)
def test_scans_agree_across_blocks(name: str) -> None:
    data = columns("uniform", 20_000 + TILE)
    stored, probes = data[:20_000], data[20_000:]
    expected = [counts(list(zip(stored.a.tolist(), stored.b.tolist(), strict=True)), p)
                for p in zip(probes.a.tolist(), probes.b.tolist(), strict=True)]  # fmt: skip
    as_left, as_right = count_both(SCANS[name], stored, probes)
    assert list(zip(as_left.tolist(), as_right.tolist(), strict=True)) == expected


@given(
    pairs=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30),
    slides=st.integers(1, 4),
    slide=st.integers(1, 5),
)
@settings(deadline=None)
def test_expected_counts_follow_the_window(pairs: list, slides: int, slide: int) -> None:
    for seq, probe in enumerate(pairs):
        inside = [pairs[i] for i in window_of(seq, slides * slide, slide)]
        assert expected_counts(as_columns(pairs), seq, slides * slide, slide) == counts(inside, probe)


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
    assert and_counts(words[0], words[1], np.array(ends, np.int64)).tolist() == both


def test_batches_end_with_their_group_and_hold_everything_once() -> None:
    codes = (np.arange(25) % 7, np.arange(25) % 3)
    made = list(batches(codes, group_tuples=10, batch_tuples=4))
    assert [(b.first, b.end, b.group) for b in made] == [
        (0, 4, 0), (4, 8, 0), (8, 10, 0), (10, 14, 1), (14, 18, 1), (18, 20, 1), (20, 24, 2), (24, 25, 2),
    ]  # fmt: skip
    for batch in made:
        for column in batch.columns:
            by_arrival = codes[column.slot][batch.first : batch.end]
            assert column.codes.tolist() == sorted(by_arrival.tolist())
            assert by_arrival[column.order].tolist() == column.codes.tolist()


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
