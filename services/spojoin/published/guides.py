"""The router's part of the door: what frames carry for the workers of a published layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spojoin.model import Query
from spojoin.protocol.guidance import Guide, hot_flags
from spojoin.published.door import StandIn, stand_in
from spojoin.published.layouts.calibration import Calibration
from spojoin.wire.records import Guidance, HotKeys, StreamSlice


class HotKeyGuide(Guide):
    """Flags tuples whose keys the predictor calls hot, for the stream-aware layout."""

    def __init__(self) -> None:
        self._hot_keys: HotKeys | None = None

    def hear(self, hot_keys: HotKeys) -> None:
        """Use these hot keys from the next frame on."""
        self._hot_keys = hot_keys

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> Guidance | None:
        """The flags; None if no key is hot yet or the frame is empty."""
        if self._hot_keys is None or not self._hot_keys.hot or not count:
            return None
        return Guidance(hot=hot_flags(self._hot_keys, count, slices))


def _calibration(query: Query) -> Guide:
    assert query.key_slots is not None, "the check of the query lets no layout by keys pass without a key"
    return Calibration(query.key_slots, int(dict(query.layout.options)["calibration"]))


_GUIDES: Mapping[str, Callable[[Query], Guide]] = {"hp": _calibration, "sta": lambda _: HotKeyGuide()}


def guide_of(query: Query) -> Guide:
    """What the router of a query adds to frames."""
    if stand_in(query) is not StandIn.LAYOUT or query.layout.name not in _GUIDES:
        return Guide()
    return _GUIDES[query.layout.name](query)
