"""What makes seeds cheaper and changes nothing of what they draw or find."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

#: Objects made between two collections: those of some dozen seeds, each of which leaves a world of cycles.
OBJECTS_MADE = 200_000


class QuickRandom(Random):
    """Draws what `Random` draws, with less between a choice and its bits: a world makes thousands of choices."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        """One of them, as `Random.choice` takes it. Raises IndexError where there is none."""
        count = len(seq)
        if not count:
            raise IndexError("there is nothing to choose from")
        bits = count.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= count:
            drawn = self.getrandbits(bits)
        return seq[drawn]


def collect_seldom() -> None:
    """Let this process, which is for seeds alone, look for garbage seldom."""
    gc.set_threshold(OBJECTS_MADE, 10, 100)
