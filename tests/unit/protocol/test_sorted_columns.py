"""A slice's columns are sorted once, with ties by arrival, and are no part of the record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.protocol.frame_evaluation import sorted_column, sought_column
from tests.support.frames import make_slice

COLUMNS = st.lists(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]), min_size=1, max_size=40)


@given(COLUMNS, COLUMNS)
def test_each_column_is_sorted_with_ties_by_arrival(first: list[int], second: list[int]) -> None:
    n = min(len(first), len(second))
    piece = make_slice([first[:n], second[:n]])
    for slot, column in ((0, first[:n]), (1, second[:n]), (0, first[:n])):
        codes, places = sorted_column(piece, slot)
        assert list(zip(codes.tolist(), places.tolist(), strict=True)) == sorted(zip(column, range(n), strict=True))
        wanted = sought_column(piece, slot)
        assert (wanted.values.tolist(), wanted.probes.tolist()) == (codes.tolist(), places.tolist())


def test_a_column_is_sorted_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = make_slice([[3, 1, 2]])
    once = sorted_column(piece, 0)
    monkeypatch.delattr("spojoin.protocol.frame_evaluation.sort_column")
    assert sorted_column(piece, 0) is once


def test_a_changed_slice_is_sorted_anew() -> None:
    piece = make_slice([[3, 1, 2]])
    sorted_column(piece, 0)
    changed = replace(piece, codes=(np.array([1, 5, 0]),))
    assert sorted_column(changed, 0)[0].tolist() == [0, 1, 5]
