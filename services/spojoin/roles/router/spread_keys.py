"""Which keys the columns of workers hold in turn, as the next frame says (rule P21)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from spojoin.model import Query
from spojoin.protocol.frame_evaluation import first_reached
from spojoin.protocol.key_columns import key_slots
from spojoin.wire.records import STILL_HOT, Frame, HotKeys, SpreadKey, StreamSlice

#: The most spread keys of a frame: each takes some 30 bytes of every frame, and its probes are asked of every column.
SPREAD_MAX = 256


class SpreadKeys:
    """Follows the log and the predictor's plans, and determines the next frame's spread keys.

    Results do not depend on what a plan says, or on which plans come.

    spreads: whether keys may become hot; otherwise all cool down
    """

    def __init__(self, query: Query, *, spreads: bool) -> None:
        #: by searched stream, the slot of its tuples' key
        self._slots = {s: each.stored for s, each in key_slots(query).items()} if spreads else {}
        self._hot: set[tuple[int, int]] | None = None if self._slots else set()
        self._spread: tuple[SpreadKey, ...] = ()
        #: of frames with spread keys under way: the frame, and the first index of each stream that its windows reach
        self._under_way: deque[tuple[int, list[int]]] = deque()

    def accept_hot_keys(self, plan: HotKeys) -> None:
        """Note a plan that is newer than all before; until there is one, no key becomes hot or cools down."""
        named = ((stream, plan.hot.get((stream, slot))) for stream, slot in self._slots.items())
        self._hot = {(stream, int(code)) for stream, found in named if found is not None for code in found[0]}

    def follow_frame(self, frame: Frame) -> None:  # P21.7
        """Note a frame of the log."""
        self._spread = frame.spread
        if frame.spread:
            reached = [first_reached(frame, stream) for stream in range(len(frame.slices))]
            self._under_way.append((frame.frame_id, reached))

    def forget_unreached(self, result_frame: int) -> None:  # P21.6
        """Forget keys whose tuples no window reaches from the last frame before `result_frame` on.

        A frame under way may still be answered by another row, which must place its tuples like its own.
        """
        while self._under_way and self._under_way[0][0] < result_frame:
            _, reached = self._under_way.popleft()
            self._spread = tuple(key for key in self._spread if key.end > reached[key.stream])

    def of_next_frame(self, slices: Sequence[StreamSlice]) -> tuple[SpreadKey, ...]:
        """The spread keys of a frame with these slices."""
        if self._hot is None or not (self._hot or self._spread):
            return self._spread
        firsts = [piece.first_index for piece in slices]
        known = {(key.stream, key.code) for key in self._spread}
        kept = [_cooled(key, firsts[key.stream]) if self._cools(key) else key for key in self._spread]
        kept = [key for key in kept if key.end > key.first]
        warm = sorted(self._hot - known)[: max(SPREAD_MAX - len(kept), 0)]
        return (*kept, *(SpreadKey(stream, code, firsts[stream], STILL_HOT) for stream, code in warm))  # P21.5

    def _cools(self, key: SpreadKey) -> bool:
        return key.end == STILL_HOT and self._hot is not None and (key.stream, key.code) not in self._hot


def _cooled(key: SpreadKey, end: int) -> SpreadKey:
    return replace(key, end=end)
