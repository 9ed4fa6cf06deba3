"""The predictor's state machine: from the log to plans (the STA paper, section 4 and figure 7)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spojoin.arrays import I64, Flags
from spojoin.kernels.asketch import ASketch
from spojoin.kernels.codes import unfold_doubles
from spojoin.model import OPERATORS, Domain, Op, Predicate, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.grid import grid_of
from spojoin.protocol.key_columns import hot_share
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Barrier, Frame, HotKeys, Record, StreamSlice

#: How many frames lie between plans: a plan has some hundred bytes, and hot keys change slowly.
PLAN_FRAMES = 16
#: The share of a stream's tuples from which on a key is hot.
HOT_SHARE = 1 / 256
#: The count that a hot key also needs, so that collisions in a young stream's sketch make no key hot.
HOT_COUNT = 16
#: After this many tuples of a stream counts are halved, so that a key's past weighs less than its present.
HALVE_TUPLES = 1 << 20


class PredictorMachine(Machine):
    """Counts all key columns of all streams, and emits the hot keys every `plan_frames` frames.

    A plan's version is its frame's id, so a restarted predictor continues the versions. `result_position` is the one at
    the start: an earlier life made the plans for earlier frames.
    """

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        plan_frames: int = PLAN_FRAMES,
        halve_tuples: int = HALVE_TUPLES,
    ) -> None:
        self._result_position = result_position
        self._plan_frames = plan_frames
        self._halve_tuples = halve_tuples
        self._reader = LogFollower()
        self._sketches = {
            (number, slot): ASketch() for number, stream in enumerate(query.streams) for slot in range(len(stream.keys))
        }
        self._sample = Sample(query)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Count a frame that the log accepts (P3), and emit a plan if one is due."""
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record):
            return
        if isinstance(record, Frame):
            self._count_frame(record)
            if self._is_time(record):
                yield Emit(Topic.PLAN, 0, self._plan(record))

    def selectivities(self) -> list[float]:
        """For each predicate the share of sampled pairs that satisfy it; NaN if too little is known."""
        return self._sample.selectivities()

    def _count_frame(self, frame: Frame) -> None:
        for number, piece in enumerate(frame.slices):
            for slot, codes in enumerate(piece.codes):
                sketch = self._sketches[number, slot]
                sketch.add(codes)
                if sketch.total >= self._halve_tuples:
                    sketch.halve()
        self._sample.sample_frame(frame)

    def _is_time(self, frame: Frame) -> bool:
        return frame.frame_id >= self._result_position.frame_id and (frame.frame_id + 1) % self._plan_frames == 0

    def _plan(self, frame: Frame) -> HotKeys:
        grid = grid_of(frame)
        share = hot_share(grid.columns) if grid.by_key else HOT_SHARE
        hot = {column: sketch.hot(share, HOT_COUNT) for column, sketch in self._sketches.items()}
        found = {column: (codes, counts) for column, (codes, counts) in hot.items() if len(codes)}
        return HotKeys(version=frame.frame_id, frame_id=frame.frame_id, hot=found)


#: How many tuples of each stream are remembered, and taken from each frame at most: 256 x 256 pairs take about 1 ms.
SAMPLE_TUPLES = 256
TUPLES_A_FRAME = 16


class Sample:
    """The latest sampled tuples of each stream, evenly spaced within frames: the same log gives the same sample."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._codes = [np.zeros((len(stream.keys), 0), np.int64) for stream in query.streams]

    def sample_frame(self, frame: Frame) -> None:
        """Replace the oldest sampled tuples by some of a frame's."""
        for stream, piece in enumerate(frame.slices):
            if len(piece):
                kept = np.concatenate([self._codes[stream], _some(piece)], axis=1)
                self._codes[stream] = kept[:, -SAMPLE_TUPLES:]

    def selectivities(self) -> list[float]:
        """For each predicate the share of pairs that satisfy it; NaN if too little is known."""
        left, right = self._codes[0], self._codes[-1]
        pairs = left.shape[1] * right.shape[1] - (left.shape[1] if self._query.is_self else 0)
        if pairs <= 0:
            return [float("nan")] * len(self._query.predicates)
        return [self._satisfying(predicate, left, right) / pairs for predicate in self._query.predicates]

    def _satisfying(self, predicate: Predicate, left: I64, right: I64) -> int:
        mask = _satisfied(predicate, left, right)
        if self._query.is_self:
            np.fill_diagonal(mask, False)
        return int(np.count_nonzero(mask))


def _some(piece: StreamSlice) -> I64:
    at = np.linspace(0, len(piece) - 1, min(len(piece), TUPLES_A_FRAME)).astype(np.int64)
    return np.stack([codes[at] for codes in piece.codes])


def _satisfied(predicate: Predicate, left: I64, right: I64) -> Flags:
    """Flags (n left, m right) of the pairs that satisfy the predicate."""
    a, b = left[predicate.left_slot][:, None], right[predicate.right_slot][None, :]
    if predicate.op.is_band:
        return _in_band(predicate, a, b)
    return np.asarray(OPERATORS[predicate.op].compare(a, b), np.bool_)


def _in_band(predicate: Predicate, a: I64, b: I64) -> Flags:
    # An estimate may use doubles even if results must not.
    left, right = (
        unfold_doubles(codes) if predicate.domain is Domain.FLOAT else codes.astype(np.float64) for codes in (a, b)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(left - right)
    within = distance < predicate.width if predicate.op is Op.BAND_LT else distance <= predicate.width
    return np.asarray(within, np.bool_)
