"""Layouts in which every worker is asked about every tuple, and tuples are stored by one worker in turn."""

from __future__ import annotations

from spojoin.published.layouts.layout import FrameShare, Layout, every, indexes, seqs
from spojoin.wire.records import Frame


class SplitJoin(Layout):
    """SplitJoin (Najafi et al., USENIX ATC 2016), section 3: each stream's storage goes round the join cores.

    The paper's cores hear of a tuple at once through a tree and restore the order of results behind it, strictly or
    relaxed; here the log has the one order, and the sink puts results into it.
    """

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Tuple i of a stream is stored by worker i mod n."""
        return FrameShare(indexes(frame, stream) % workers == worker, every(frame, stream))


class ScaleJoin(Layout):
    """ScaleJoin (Gulisano et al., 2015), section III.B: worker w stores a ready tuple iff `counter % n` is w.

    The counter runs over the ready tuples of all streams: it is the seq. Ready tuples are the router's merge
    (`order: event_time`); a window whose streams alternate in step with n lies on fewer workers than n, as published.
    """

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """The tuple of seq i is stored by worker i mod n."""
        return FrameShare(seqs(frame, stream) % workers == worker, every(frame, stream))
