"""The broadcast hash join of stream engines: every worker holds all windows, a tuple's key selects who searches."""

from __future__ import annotations

from spojoin.kernels.spread import spread
from spojoin.published.layouts.layout import FrameShare, Layout, every
from spojoin.wire.records import Frame


class Bchj(Layout):
    """STA, section 5.1, algorithm 3: insert and remove at all workers, look up at the worker of the tuple's hash.

    The key is the stream's first join column. As published, skewed keys overload one worker.
    """

    is_replicated = True

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Every worker stores everything; the worker of a tuple's hash searches for its partners."""
        return FrameShare(every(frame, stream), spread(frame.slices[stream].codes[0], workers) == worker)
