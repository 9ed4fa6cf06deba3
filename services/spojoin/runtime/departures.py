"""What a life writes, and how far results are out."""

from __future__ import annotations

from collections.abc import Iterable

from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.machine import Emit, ResultPosition, Trim
from spojoin.protocol.topology import Role
from spojoin.runtime.loop_spec import LoopSpec, Surroundings
from spojoin.runtime.outbox import POLL_S, Outboxes, OutputSoFar, WriteMode
from spojoin.runtime.result_position import ResultPositionFollower, ResultsEnds
from spojoin.telemetry.metrics import value_of
from spojoin.wire.records import Frame

#: the result position is put into the store at most this often, since the loop waits for each such request
PUBLISH_MS = 10
STOP_TIMEOUT_S = 10.0


class Departures:
    """The emits and trims of one life, and the result position, which moves by its emits or by other services'."""

    def __init__(self, spec: LoopSpec, world: Surroundings) -> None:
        self._spec = spec
        self._world = world
        mode = WriteMode(result_writer=spec.result_writer, result_key=spec.result_key)
        place = spec.topics, world.metrics, world.clock
        self._outboxes = Outboxes(world.log, spec.edge, spec.transactional_ids, place, mode)
        if not spec.takes_over:
            self._outboxes.open()  # L1
        self._trims: dict[LogPartition, int] = {}
        self._frames_written = 0
        self._fresh: ResultPosition | None = None
        self._unpublished: ResultPosition | None = None
        self._next_publish_ms = 0.0

    def begin(self, results: ResultsEnds) -> None:
        """Begin after the results that are out."""
        world = self._world
        self._follower = ResultPositionFollower(results, world.shared, world.clock, self._spec.result_position_ms)
        self._outboxes.go_on_after(self._out_so_far(results))

    def _out_so_far(self, results: ResultsEnds) -> OutputSoFar:
        end = results.ends[self._spec.share.number]
        return OutputSoFar(end.furthest, end.matches)

    def fence(self) -> None:
        """L8: register the writers that only the speaker may have."""
        self._outboxes.open()

    def go_on_after(self, results: ResultsEnds) -> None:
        """L8: continue after the results of the previous speaker."""
        self._outboxes.go_on_after(self._out_so_far(results))
        for partition, owed in enumerate(results.owed):
            self._follower.move(owed, partition)

    @property
    def result_position(self) -> ResultPosition:
        """How far results are out, as far as is known here."""
        return self._follower.latest

    @property
    def matches_out(self) -> int:
        """The number of matches in all readable results."""
        return self._outboxes.matches_out

    def emit(self, action: Emit) -> None:
        """Append a record, and wait while the log is full."""
        if isinstance(action.record, Frame):
            self._frames_written = action.record.frame_id + 1
        self._outboxes.emit(action)
        self._world.reporter.emitted(action)
        self.settle(is_idle=False)
        while self._outboxes.is_full():
            self._world.clock.sleep(POLL_S)
            self.settle(is_idle=False)

    def settle(self, *, is_idle: bool) -> None:
        """L4. A machine that is emitting learns of its result position afterwards."""
        result_position = self._outboxes.serve(is_idle=is_idle)
        if result_position is not None:
            self._world.reporter.hops.settled(result_position.frame_id)
            self._unpublished = result_position
            self._fresh = self._follower.move(result_position, self._spec.share.number) or self._fresh
        self._publish_position()

    def _publish_position(self) -> None:
        """Put the result position into the store at intervals, since services read it less often than it moves."""
        now_ms = self._world.clock.monotonic_ms()
        if self._unpublished is not None and now_ms >= self._next_publish_ms:
            self._next_publish_ms = now_ms + PUBLISH_MS
            self._world.shared.put_result_position(self._unpublished, self._spec.share)
            self._unpublished = None

    def poll_position(self) -> ResultPosition | None:
        """The result position, if it has moved since the last call."""
        fresh, self._fresh = self._follower.poll() or self._fresh, None
        return fresh

    def has_more_to_come(self) -> bool:
        """Whether something is about to happen while the loop waits for the users' inputs.

        That is a settlement, or that frames arrive which this process wrote for its other roles.
        """
        is_ahead = len(self._spec.roles) > 1 and self._frames_written > self._follower.latest.frame_id
        return self._outboxes.is_settling() or (self._spec.parse is not None and is_ahead)

    def note_trims(self, trims: Iterable[Trim]) -> None:
        """Gather trims."""
        for trim in trims:
            self._trims[LogPartition(self._spec.topics.name(trim.topic), trim.partition)] = trim.offset
            self._world.reporter.trimmed(trim)

    def trim(self, more: dict[LogPartition, int]) -> None:
        """Perform the gathered trims, and others."""
        trims, self._trims = self._trims | more, {}
        for source, before in trims.items():
            self._world.log.trim(source, before)

    def measure(self) -> None:
        """Report how many more frames the router may write."""
        metrics = self._world.metrics
        if Role.ROUTER in self._spec.roles:
            ahead = value_of(metrics.head_frame) - self._follower.latest.frame_id
            metrics.credits.set(max(0, self._spec.credits_frames - ahead))

    def finish(self) -> None:
        """Settle all emits."""
        result_position = self._outboxes.settle(STOP_TIMEOUT_S)
        if result_position is not None:
            self._world.shared.put_result_position(result_position, self._spec.share)

    def close(self) -> None:
        """Close all writers; unsettled records may be lost."""
        self._outboxes.close()
