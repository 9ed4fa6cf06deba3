"""Processes for seeds: what their parent has open is not theirs to close."""

from __future__ import annotations

import gc

from spojoin.query import extract
from spojoin.simulate.forking import forking


def test_no_expression_engine_is_inherited():
    extract._recent[0, False, 0] = object()
    with forking():
        assert not extract._recent


def test_a_forked_process_collects_nothing_of_its_parent():
    with forking() as context, context.Pool(1) as pool:
        assert pool.apply(gc.get_freeze_count) > 0
    assert gc.get_freeze_count() == 0
