"""The logical AND of an answerer: it combines the partials of the joiner in its process, whichever frames these are of.

The joiner decides which frames the answerer takes: its own, and those of answerers that seem to be gone (rule P22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import Query
from spojoin.protocol.answerer import answerer_of
from spojoin.protocol.machine import Action, ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.roles.logical_and.machine import FrameKey, LogicalAndMachine
from spojoin.wire.records import Barrier, Frame, Partial, Record


class AnsweringAnd(LogicalAndMachine):
    """Combines the partials that come, and keeps each frame until results cover it.

    partition_of: the partition of `matches` in which an answerer reports the mutable part; the one that should have
        answered a frame decides, whichever one does
    """

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        partition_of: Callable[[int], int],
        runner: TaskRunner = IN_TURN,
    ) -> None:
        super().__init__(query, result_position, runner=runner)
        self._partition_of = partition_of
        self._kept: dict[FrameKey, Frame] = {}
        self._newest: Frame | None = None

    def wants(self, topic: Topic, partition: int) -> bool:
        """Always: the router's credits bound the frames under way, and the joiner is in this process."""
        return True

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a partial, and evaluate the frame that is complete with it."""
        if isinstance(record, Partial):
            key = record.epoch, record.frame_id
            if record.frame_id >= self._result_position.frame_id:
                self._partials[record.predicate][key] = record
                yield from self._evaluate_if_complete(key)
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            self._store_tuples(record)
            key = record.epoch, record.frame_id
            self._newest = record
            if self._is_due(record):
                self._kept[key] = record
            self._drop_unreached()
            yield from self._evaluate_if_complete(key)

    def _drop_unreached(self) -> None:
        oldest = next(iter(self._kept.values()), self._newest)
        if oldest is not None:
            self._drop_handed_over(oldest)

    def _evaluate_if_complete(self, key: FrameKey) -> Iterator[Action]:  # P22.9
        frame = self._kept.get(key)
        if frame is None or not all(key in waiting for waiting in self._partials):
            return
        self._partition = self._partition_of(answerer_of(frame))
        yield from self._evaluate_frame(frame, [waiting.pop(key) for waiting in self._partials])

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Nothing waits for the time."""
        return iter(())

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Forget the frames whose results are out."""
        trims = super().on_result_position(result_position)
        self._kept = {key: frame for key, frame in self._kept.items() if frame.frame_id >= result_position.frame_id}
        self._drop_unreached()
        return trims
