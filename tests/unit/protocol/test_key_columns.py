"""Columns by key: each tuple is in one column, and each probe is asked of every column that holds a partner."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.protocol.grid import Share
from spojoin.protocol.key_columns import KeySlots, column_of, is_asked, is_held, is_spread, key_slots, without_key
from spojoin.query.load import parse_query
from spojoin.wire.records import STILL_HOT, SpreadKey

ONE = "s: {schema: {a: long, b: long, c: long}}"
TWO = "s: {schema: {a: long, b: long}}\n  t: {schema: {a: long, b: long}}"


def query(condition, streams=ONE, right="s", join="JOIN", emit=""):
    window = "WINDOW AS (SLIDE INTERVAL '10' ON '100')" + emit
    sql = f"SELECT * FROM s AS l {join} {right} AS r ON {condition} {window}"
    return parse_query(f"name: q\nstreams:\n  {streams}\nsql: {sql}\n")


@pytest.mark.parametrize(
    ("condition", "slots"),
    [
        ("l.a = r.a", {0: KeySlots(0, 0)}),
        ("l.b < r.b AND l.a = r.a", {0: KeySlots(1, 1)}),
        ("l.a <> r.a AND ABS(l.b - r.b) < 2 AND l.c = r.c", {0: KeySlots(2, 2)}),
        ("l.a < r.a", {}),
        ("l.a = r.b AND l.b = r.a", {}),
        ("l.a = r.b AND l.b = r.a AND l.c = r.c", {0: KeySlots(2, 2)}),
        ("l.a = r.b", {0: KeySlots(0, 0), 1: KeySlots(0, 0)}),
    ],
)
def test_the_key_is_the_first_equality_of_the_same_slots_in_every_direction(condition, slots):
    assert key_slots(query(condition)) == slots


def test_each_searched_stream_of_two_has_slots():
    assert key_slots(query("l.b < r.a AND l.a = r.b", TWO, "t")) == {0: KeySlots(1, 1), 1: KeySlots(1, 1)}


def test_only_the_searched_stream_has_slots_where_left_rows_ask():
    assert key_slots(query("l.a = r.b", TWO, "t", "LEFT JOIN", " EMIT ON ARRIVAL")) == {1: KeySlots(0, 0)}


def test_marks_of_void_rows_are_no_key():
    assert key_slots(query("l.a < r.b", TWO, "t", "FULL JOIN", " EMIT ON CLOSE")) == {}
    slots = key_slots(query("l.a < r.b AND l.b = r.a", TWO, "t", "FULL JOIN", " EMIT ON CLOSE"))
    assert slots == {0: KeySlots(1, 1), 1: KeySlots(1, 1)}


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("l.a < r.a", "its condition has no equality of two columns"),
        ("l.a = r.b AND l.b = r.a", "its equalities compare different columns of one stream with itself"),
    ],
)
def test_a_query_without_a_key_says_why(condition, why):
    assert without_key(query(condition)) == why


@pytest.mark.parametrize("columns", [1, 2, 3, 8])
def test_keys_are_spread_evenly(columns):
    for codes in (np.arange(8_000), np.arange(8_000) * 4096 - 2**40, np.arange(8_000) + 2**62):
        counts = np.bincount(column_of(codes, columns), minlength=columns)
        assert len(counts) == columns
        assert counts.max() <= 1.2 * counts.mean()


def ranges(rng, keys, end):
    """Some keys' ranges, two of a key never together."""
    spread = []
    for code in rng.permutation(keys)[:3]:
        first = int(rng.integers(0, end))
        last = int(rng.integers(first + 1, end + 1))
        spread.append(SpreadKey(0, int(code), first, STILL_HOT if rng.random() < 0.5 else last))
    return spread


@pytest.mark.parametrize("seed", range(30))
def test_each_tuple_is_in_one_column_and_is_found_there(seed):
    rng = np.random.default_rng(seed)
    first, n, columns = int(rng.integers(0, 50)), int(rng.integers(1, 60)), int(rng.integers(1, 5))
    codes = rng.integers(-3, 3, n)
    spread = ranges(rng, np.arange(-3, 3), first + n)
    order = np.argsort(codes, kind="stable")
    shares = [Share(column, columns, by_key=True) for column in range(columns)]
    held = np.array([is_held(codes[order], order, first, share, spread) for share in shares])
    assert held.sum(axis=0).tolist() == [1] * n
    for share, tuples in zip(shares, held, strict=True):
        assert is_asked(codes, share, is_spread(codes, spread))[tuples].all()
        for offset in np.flatnonzero(tuples):
            in_turn = any(k.code == codes[offset] and k.first <= first + offset < k.end for k in spread)
            home = (first + offset) % columns if in_turn else int(column_of(codes[offset : offset + 1], columns)[0])
            assert home == share.column


def test_cold_keys_are_asked_of_one_column():
    codes = np.arange(-100, 100)
    asked = sum(is_asked(codes, Share(column, 4, by_key=True), is_spread(codes, ())).astype(int) for column in range(4))
    assert asked.tolist() == [1] * len(codes)
