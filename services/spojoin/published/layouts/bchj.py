"""The broadcast hash join of stream engines: windows everywhere, a tuple's key tells who searches."""

from __future__ import annotations

from spojoin.kernels.spread import spread
from spojoin.published.layouts.layout import FrameShare, Layout, every
from spojoin.wire.records import Frame


class Bchj(Layout):
    """STA, section 5.1, algorithm 3: insertion and removal at all workers, look-up at the one of the tuple's hash.

    The key is the stream's first join column. Skewed keys load one worker, as published.
    """

    is_replicated = True

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Everything is stored; a tuple's partners are searched by the worker of its hash."""
        return FrameShare(every(frame, stream), spread(frame.slices[stream].codes[0], workers) == worker)
