"""Rows come back from blocks as they were, and what all of them share is written once."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.arrays import I64
from spojoin.errors import WireError
from spojoin.protocol import blocks
from spojoin.protocol.blocks import blocks_of, rows_of
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Rows

PLACES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12, unique=True).map(sorted)


def rows(places: list[tuple[int, int]], produced_ms: I64) -> Rows:
    offsets, numbers = (np.array([place[at] for place in places], np.int64) for at in (0, 1))
    keys = pa.array([f"{offset}:{row}" for offset, row in places], pa.string())
    return Rows(offsets, numbers, 3, (offsets * 10 + numbers,), None, keys, produced_ms)


@given(PLACES, st.data(), st.integers(1, 12))
def test_rows_come_back_as_they_were(places, data, size):
    produced_ms = np.array([data.draw(st.integers(7, 8)) for _ in places], np.int64)
    with patch.object(blocks, "BLOCK_ROWS_MAX", size):
        written = [decode(encode(block)) for block in blocks_of(0, 0, (0, 0), rows(places, produced_ms))]
    found = [rows_of(block, lambda *_: lambda *_: None) for block in written]
    assert [(int(o), int(r)) for each in found for o, r in zip(each.offsets, each.rows, strict=True)] == places
    assert [int(ms) for each in found for ms in each.produced_ms] == produced_ms.tolist()


def lengths(places: list[tuple[int, int]]) -> tuple[int, int, int]:
    (block,) = blocks_of(0, 0, (0, 0), rows(places, np.zeros(len(places), np.int64)))
    return len(block.offsets), len(block.rows), len(block.produced_ms)


def test_a_whole_message_has_one_offset_and_its_rows_count_up():
    assert lengths([(4, 0), (4, 1), (4, 2)]) == (1, 1, 1)
    assert lengths([(4, 5), (4, 6)]) == (1, 1, 1)


def test_rows_of_further_messages_count_up_from_their_first():
    assert lengths([(4, 0), (5, 0), (6, 0)]) == (3, 1, 1)
    assert lengths([(4, 7), (4, 8), (5, 0), (5, 1)]) == (4, 1, 1)


def test_rows_beside_one_that_was_left_out_are_listed():
    assert lengths([(4, 0), (4, 2), (4, 3)]) == (1, 3, 1)
    assert lengths([(4, 0), (5, 1)]) == (2, 2, 1)


def test_a_block_without_rows_shares_nothing():
    (block,) = blocks_of(0, 0, (0, 0), rows([], np.empty(0, np.int64)))
    assert len(decode(encode(block))) == 0
    with pytest.raises(WireError, match="offsets has 1 entries, expected 0"):
        encode(replace(block, offsets=np.zeros(1, np.int64)))
