"""The predictor's state machine: from the log to plans (the STA paper, section 4 and figure 7)."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.kernels.asketch import ASketch
from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.roles.predictor.sample import Sample
from spojoin.wire.records import Barrier, Frame, HotKeys, Record

#: Frames between plans: a plan is some hundred bytes, and hot keys don't change from one frame to the next.
PLAN_FRAMES = 16
#: A key is hot from this share of a stream's tuples on.
HOT_SHARE = 1 / 256
#: And from this count on, so that collisions in the sketch of a young stream make nothing hot.
HOT_COUNT = 16
#: Tuples of a stream after which counts are halved, so that a key's past weighs less than its present.
HALVE_TUPLES = 1 << 20


class PredictorMachine(Machine):
    """Counts all key columns of all streams, and plans every `plan_frames` frames what is hot.

    A plan's version is its frame's id, so that a restarted predictor continues the versions. `result_position` is that
    of the start: plans for earlier frames were made by a former life.
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
        """Count a frame that the log accepts (P3), and plan when it is time."""
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record):
            return
        if isinstance(record, Frame):
            self._take(record)
            if self._is_time(record):
                yield Emit(Topic.PLAN, 0, self._plan(record.frame_id))

    def selectivities(self) -> list[float]:
        """For each predicate the share of sampled pairs that satisfy it; NaN where too little is known."""
        return self._sample.selectivities()

    def _take(self, frame: Frame) -> None:
        for number, piece in enumerate(frame.slices):
            for slot, codes in enumerate(piece.codes):
                sketch = self._sketches[number, slot]
                sketch.add(codes)
                if sketch.total >= self._halve_tuples:
                    sketch.halve()
        self._sample.take(frame)

    def _is_time(self, frame: Frame) -> bool:
        return frame.frame_id >= self._result_position.frame_id and (frame.frame_id + 1) % self._plan_frames == 0

    def _plan(self, frame_id: int) -> HotKeys:
        hot = {column: sketch.hot(HOT_SHARE, HOT_COUNT) for column, sketch in self._sketches.items()}
        found = {column: (codes, counts) for column, (codes, counts) in hot.items() if len(codes)}
        return HotKeys(version=frame_id, frame_id=frame_id, hot=found)
