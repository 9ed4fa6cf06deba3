"""What is loaded is left out of the garbage collector's rounds, for as long as it is needed."""

from __future__ import annotations

import gc
import weakref

import pytest

from spojoin.runtime.garbage import loaded_objects_spared


class Ring:
    """An object that only a round of the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_a_round_leaves_out_what_was_there_until_the_block_ends() -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    with loaded_objects_spared():
        del ring
        gc.collect()
        assert seen() is not None
    gc.collect()
    assert seen() is None


def test_garbage_is_collected_before() -> None:
    seen = weakref.ref(Ring())
    with loaded_objects_spared():
        assert seen() is None


def test_what_comes_later_is_collected_as_always() -> None:
    with loaded_objects_spared():
        seen = weakref.ref(Ring())
        gc.collect()
        assert seen() is None


def test_nothing_is_spared_after_an_error() -> None:
    with pytest.raises(ValueError, match="end"), loaded_objects_spared():
        raise ValueError("end")
    assert gc.get_freeze_count() == 0
