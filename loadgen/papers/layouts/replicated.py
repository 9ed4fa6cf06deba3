"""Layouts that replicate: every worker searches for each tuple, or every worker stores it."""

from __future__ import annotations

from loadgen.papers.layouts.layout import FrameShare, Layout, every, indexes, seqs, spread
from spojoin.wire.records import Frame


class SplitJoin(Layout):
    """SplitJoin (Najafi et al., USENIX ATC 2016), section 3: each stream's storage goes round the join cores.

    The paper sends a tuple to its cores through a tree and restores the order of results behind them, strictly or
    relaxed; here the log defines the order, and the sink puts results into it.
    """

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Tuple i of a stream is stored by worker i mod n."""
        return FrameShare(indexes(frame, stream) % workers == worker, every(frame, stream))


class ScaleJoin(Layout):
    """ScaleJoin (Gulisano et al., 2015), section III.B: worker w stores a ready tuple iff `counter % n` is w.

    The counter runs over the ready tuples of all streams: it is the seq. Ready tuples are the output of the router's
    merge (`order: event_time`). As published, streams that alternate in step with n leave some workers without tuples.
    """

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """The tuple of seq i is stored by worker i mod n."""
        return FrameShare(seqs(frame, stream) % workers == worker, every(frame, stream))


class Bchj(Layout):
    """STA, section 5.1, algorithm 3: insert and remove at all workers, look up at the worker of the tuple's hash.

    The key is the stream's first join column. As published, skewed keys overload one worker.
    """

    is_replicated = True

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Every worker stores everything; the worker of a tuple's hash searches for its partners."""
        return FrameShare(every(frame, stream), spread(frame.slices[stream].codes[0], workers) == worker)
