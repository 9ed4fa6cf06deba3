"""What a router may add to frames so that a layout's workers agree without a word: its interface, and nothing by it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.wire.records import U8, Frame, Guidance, HotKeys, StreamSlice


class Guide:
    """Follows the log for a layout and says what the next frame carries. This one, for most layouts, says nothing."""

    def note(self, frame: Frame) -> None:
        """A frame of the log."""
        return

    def hear(self, hot_keys: HotKeys) -> None:
        """What a predictor found, newer than all before."""
        return

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> Guidance | None:
        """What a frame of `count` tuples in these slices carries."""
        return None


def hot_flags(hot_keys: HotKeys, count: int, slices: Sequence[StreamSlice]) -> U8:
    """Which of a frame's `count` tuples have a hot key in any column: uint8 (count,)."""
    hot = np.zeros(count, np.uint8)
    for (stream, slot), (codes, _) in hot_keys.hot.items():
        piece = slices[stream]
        hot[piece.positions] |= np.isin(piece.codes[slot], codes).astype(np.uint8)
    return hot
