"""A layout's worker over the log: it replaces mutable joiners, permutation, PO-Join workers and logical AND.

All its knowledge comes from the log. For frames whose results are out it stores its share without reporting.
When the worker count changes in the log (rule P11), it reads the log again and keeps its new share: workers pass no
tuples to each other. The log is trimmed behind the window (rule P9, with no batches), so everything is still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loadgen.papers.layouts.costs import WorkDone
from loadgen.papers.layouts.evaluator import Evaluator
from loadgen.papers.layouts.handshake import HandshakeChain
from loadgen.papers.layouts.layout import Layout
from loadgen.papers.layouts.ppoij import DataParallel, Hybrid, KeyPartitioning
from loadgen.papers.layouts.replicated import Bchj, ScaleJoin, SplitJoin
from loadgen.papers.layouts.sta import StaLayout
from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.grid import Grid
from spojoin.protocol.machine import START, Action, Emit, ResultPosition, Rewind, Trim, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Barrier, Frame, Record

#: All layouts except two: the product's own, which is the services' machines themselves, and the handshake join, whose
#: workers don't read the log.
LAYOUTS: Mapping[str, type[Layout]] = {
    "split_join": SplitJoin,
    "bchj": Bchj,
    "scale_join": ScaleJoin,
    "sta": StaLayout,
    "kp": KeyPartitioning,
    "dp": DataParallel,
    "hp": Hybrid,
}


def layout_of(query: Query) -> Layout:
    """The layout that a query names, which must be in LAYOUTS."""
    return LAYOUTS[query.layout.name](query)


class LayoutMachine(WindowMachine):
    """Worker number `worker`; `grid`, if known, is one row of all; otherwise the first frame gives the count."""

    def __init__(self, query: Query, worker: int, result_position: ResultPosition, grid: Grid | None = None) -> None:
        self._query = query
        self._worker = worker
        self._result_position = result_position
        self._workers = 0 if grid is None else grid.workers
        self._layout = layout_of(query)
        self._reader = LogFollower()
        self._silent_before = 0
        self._share = self._empty_share()
        self._compared_before = 0

    def _empty_share(self) -> Evaluator | None:
        """None if the worker's number is beyond the worker count: it holds nothing and reports nothing."""
        if self._worker >= self._workers:
            return None
        return Evaluator(self._query, self._layout, self._worker, self._workers)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame of the log, and report on it."""
        if isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            yield from self._take(record)

    def _take(self, frame: Frame) -> Iterator[Action]:
        if self._workers == 0:
            self._workers = frame.workers
            self._share = self._empty_share()
        is_due = frame.frame_id >= max(self._result_position.frame_id, self._silent_before)
        if is_due and frame.workers != self._workers:
            yield from self._begin_anew(frame)
            if self._share is not None:
                return
        if self._share is None:
            return
        self._share.load.note_log(self._query, frame)
        if is_due:
            for part in self._share.evaluate(frame):
                yield Emit(Topic.MATCHES, 1 + self._worker, part)
        else:
            self._share.store(frame)

    def _begin_anew(self, frame: Frame) -> Iterator[Action]:
        """P11: frames before this one were answered under their own worker count; read them again for their tuples."""
        self._compared_before = self._compared
        self._workers = frame.workers
        self._share = self._empty_share()
        if self._share is not None:
            self._reader = LogFollower()
            self._silent_before = frame.frame_id
            yield Rewind(Topic.FRAMES)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Report nothing on frames that it covers. Nothing is trimmed here."""
        self._result_position = max(self._result_position, result_position)
        return []

    def loads(self) -> list[WorkDone]:
        """The cost of the layout for this worker since its share began."""
        return [WorkDone() if self._share is None else self._share.load]

    @property
    def _compared(self) -> int:
        return self._compared_before + (0 if self._share is None else self._share.load.comparisons)

    def counters(self) -> dict[str, float]:
        """Pairs of a probe and a stored tuple answered for, by this share and earlier ones."""
        return {"comparisons": self._compared}

    def search_counters(self) -> dict[str, float]:
        """The method's counters for this share."""
        return {} if self._share is None else self._share.search_counters()

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return 0 if self._share is None else self._share.tuples

    def state_bytes(self) -> int:
        return 0 if self._share is None else self._share.nbytes


HANDSHAKE = "handshake"

Workers = list[LayoutMachine] | list[HandshakeChain]


def workers_of(query: Query, workers: int) -> Workers:
    """The machines of a published layout: one for each worker, or one for a whole chain."""
    if query.layout.name == HANDSHAKE:
        return [HandshakeChain(query, workers)]
    return [LayoutMachine(query, worker, START, Grid(1, workers)) for worker in range(workers)]


def needs_hot_keys(query: Query) -> bool:
    """Whether the query's layout needs a predictor's hot keys."""
    return query.layout.name in LAYOUTS and LAYOUTS[query.layout.name].needs_hot_keys
