"""Times the hops of frames on their way through the services, as far as one process sees them.

    produced -> taken by the router -> framed -> in the log -> all parts there -> result emitted -> readable
            arrival            framing    writing     evaluation          assembly        settling

The sink waits for evaluation; the steps within the evaluating services are further hops. All hops except two begin and
end in one process, by its own clock: arrival compares this clock with the producer's, delivery compares it with the
clock of the log's writer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from spojoin.ports.interfaces import Clock
from spojoin.protocol.frame_evaluation import MUTABLE_PART
from spojoin.protocol.topology import Hop, Role, role_entry
from spojoin.telemetry.hop_times import HopTimes
from spojoin.wire.records import Frame, Part, Partial, Record, Result

#: how many frames are followed at once; more are under way only if the credits are set higher
FRAMES_MAX = 2_048
#: how many chunks of rows are remembered, to find the one that brought a frame's oldest row
CHUNKS_MAX = 256


def hops_of(roles: Iterable[Role]) -> tuple[Hop, ...]:
    """The hops that a process of these roles times; with the router in it, writing includes what delivery measures."""
    group = [role_entry(role) for role in roles]
    found = {hop for each in group for hop in each.own_hops}
    if any(each.follows_frames for each in group) and Hop.WRITING not in found:
        found.add(Hop.DELIVERY)
    return tuple(hop for hop in Hop if hop in found)


@dataclass(slots=True)
class _FrameTrace:
    """What this process has seen of a frame: how much it answers, and moments by the monotonic clock.

    known_ms: when the process first had it, written or read; taken_ms: when the process took it from the log
    part_ms: when the latest chunk of a part came
    """

    answers: int = -1
    known_ms: float | None = None
    taken_ms: float | None = None
    part_ms: float | None = None


class FrameHops:
    """Follows frames through one life of a process; only hops that it saw from their start are timed."""

    def __init__(self, roles: Iterable[Role], clock: Clock, times: HopTimes) -> None:
        self._hops = frozenset(hops_of(roles))
        self._clock = clock
        self._times = times
        times.expect(hops_of(roles))
        self.begin()

    def begin(self) -> None:
        """A life begins: no frame is under way here."""
        self._traces: dict[int, _FrameTrace] = {}
        self._chunks: deque[tuple[int, int, int]] = deque(maxlen=CHUNKS_MAX)
        self._unsettled: deque[tuple[int, float]] = deque(maxlen=FRAMES_MAX)
        self._last_predicate = 0

    def took_rows(self, oldest_ms: int, newest_ms: int) -> None:
        """The router took rows that were produced from `oldest_ms` to `newest_ms`, both since 1970."""
        self._chunks.append((oldest_ms, newest_ms, self._clock.wall_ms()))

    def framed(self, frame: Frame) -> None:
        """This process wrote a frame."""
        if not frame.is_answered:
            return
        trace = self._trace(frame.frame_id)
        trace.answers, trace.known_ms = frame.answers, self._clock.monotonic_ms()
        if not frame.count:  # rows close, but none has come
            return
        oldest_ms, wall_ms = int(frame.produced_ms.min()), self._clock.wall_ms()
        taken_ms = self._row_taken_ms(oldest_ms, wall_ms)
        self._times.observe(Hop.ARRIVAL, max(0, taken_ms - oldest_ms))  # the producers' clock may be ahead
        self._times.observe(Hop.FRAMING, max(0, wall_ms - taken_ms))

    def took(self, record: Record, appended_ms: int) -> None:
        """A record of the log was taken; `appended_ms`: when it was appended, by the writer's clock."""
        if isinstance(record, Frame):
            if record.is_answered:
                self._took_frame(record, appended_ms)
        elif isinstance(record, Part) and Hop.EVALUATION in self._hops:
            self._trace(record.frame_id).part_ms = self._clock.monotonic_ms()

    def made(self, record: Record) -> None:
        """A machine of this process emitted a record."""
        if isinstance(record, Partial | Part):
            self._evaluated(record)
        elif isinstance(record, Result) and record.is_last:
            self._answered(record.frame_id)

    def settled(self, frame_id: int) -> None:
        """Results are readable for all frames before `frame_id`."""
        now_ms = self._clock.monotonic_ms()
        while self._unsettled and self._unsettled[0][0] < frame_id:
            self._times.observe(Hop.SETTLING, now_ms - self._unsettled.popleft()[1])

    def forget_before(self, frame_id: int) -> None:
        """Frames before `frame_id` are complete."""
        for done in [known for known in self._traces if known < frame_id]:
            del self._traces[done]

    def _took_frame(self, frame: Frame, appended_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        trace = self._trace(frame.frame_id)
        if trace.taken_ms is not None:  # appended twice, or the topic is read again
            return
        trace.answers, trace.taken_ms = frame.answers, now_ms
        if Hop.DELIVERY in self._hops:
            self._times.observe(Hop.DELIVERY, max(0, self._clock.wall_ms() - appended_ms))
        elif trace.known_ms is not None:
            self._times.observe(Hop.WRITING, now_ms - trace.known_ms)
        if trace.known_ms is None:
            trace.known_ms = now_ms

    def _evaluated(self, record: Partial | Part) -> None:
        trace = self._traces.get(record.frame_id)
        if trace is None or trace.known_ms is None:
            return
        now_ms = self._clock.monotonic_ms()
        if isinstance(record, Partial):
            self._last_predicate = max(self._last_predicate, record.predicate)
            if record.predicate == self._last_predicate:
                self._times.observe(Hop.RANKING, now_ms - trace.known_ms)
            return
        trace.part_ms = now_ms
        if record.end >= trace.answers:
            hop = Hop.COMBINING if record.part == MUTABLE_PART else Hop.SEARCH
            self._times.observe(hop, now_ms - trace.known_ms)

    def _answered(self, frame_id: int) -> None:
        trace = self._traces.pop(frame_id, None)
        if trace is None or trace.taken_ms is None or trace.part_ms is None:
            return
        now_ms = self._clock.monotonic_ms()
        ready_ms = max(trace.taken_ms, trace.part_ms)
        self._times.observe(Hop.EVALUATION, ready_ms - trace.taken_ms)
        self._times.observe(Hop.ASSEMBLY, now_ms - ready_ms)
        self._unsettled.append((frame_id, now_ms))

    def _trace(self, frame_id: int) -> _FrameTrace:
        trace = self._traces.get(frame_id)
        if trace is None:
            if len(self._traces) >= FRAMES_MAX:
                del self._traces[next(iter(self._traces))]
            trace = self._traces[frame_id] = _FrameTrace()
        return trace

    def _row_taken_ms(self, produced_ms: int, now_ms: int) -> int:
        """When the router took the row, by its own clock; the oldest known chunk stands for forgotten ones."""
        for oldest_ms, newest_ms, taken_ms in reversed(self._chunks):
            if oldest_ms <= produced_ms <= newest_ms:
                return taken_ms
        return self._chunks[0][2] if self._chunks else now_ms
