"""What is loaded is left out of the collector's rounds while it is needed; what is free goes back to the system."""

from __future__ import annotations

import gc
import platform
import weakref

import psutil
import pytest

from spojoin.runtime.process import give_back, limit_arenas, loaded_objects_spared


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has a heap of its own")
def test_what_is_free_between_what_is_held_goes_back_to_the_system() -> None:
    limit_arenas()
    pieces = [bytes(1_000) for _ in range(100_000)]
    held = pieces[::100]
    del pieces
    before = psutil.Process().memory_info().rss
    give_back()
    assert len(held) == 1_000
    assert before - psutil.Process().memory_info().rss > 50_000_000
