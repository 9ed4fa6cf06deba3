"""Planted bugs in packings, standbys and answerers (rules P14, P15 and P22); seeds without options must find each.

Mutants in `HARMLESS` must change no output, because no output may depend on the broken parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from unittest.mock import patch
from weakref import WeakKeyDictionary

from loadgen.simulate.broker import AppendsUnderWay, SimulatedLog
from loadgen.simulate.mutants import Mutant, Patches, planted
from loadgen.simulate.process import Process
from spojoin.kernels.sorted_tail import SortedTail
from spojoin.protocol.machine import BY_REFERENCE, Action, Emit, ResultPosition, TakeOver, Trim
from spojoin.protocol.packed_machine import Pack, PackMember, Source
from spojoin.protocol.standby import ECHOES, Seat, Standby
from spojoin.protocol.topology import Role, Topic
from spojoin.roles.mutable.answering import AnsweringJoiner
from spojoin.roles.mutable.machine import StreamStore, handed_over
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.records import Frame, Presence, Record, Run, StreamSlice

PACK_MUTANTS: dict[str, Mutant] = {}
HARMLESS: dict[str, Mutant] = {}

_mutant, _harmless = partial(planted, PACK_MUTANTS), partial(planted, HARMLESS)


# --- P14 --------------------------------------------------------------------------------------------------------------


@_mutant("leaves-before-its-frame", "what follows from a frame leaves a pack although the frame isn't in the log")
def _leaves_before_its_frame() -> Patches:
    return [patch.object(Pack, "_newest_behind", lambda *_: -1)]


@_mutant("sink-goes-ahead", "a pack gives its sink frames that aren't in the log")
def _sink_goes_ahead() -> Patches:
    go_ahead = Pack._go_ahead

    def too_far(self: Pack, action: Emit) -> None:
        go_ahead(self, action)
        for member in self._members:
            if member.fellow.role is Role.SINK:
                member.queue_record((action.topic, action.partition), BY_REFERENCE, action.record)

    return [patch.object(Pack, "_go_ahead", too_far)]


@_mutant("held-for-ever", "what follows from a frame doesn't leave a pack when the frame has come into the log")
def _held_for_ever() -> Patches:
    return [patch.object(Pack, "_release", lambda _: iter(()))]


@_harmless("taken-twice", "a member of a pack is given again what another member had read again")
def _taken_twice() -> Patches:
    def put(self: PackMember, source: Source, offset: int, record: Record) -> None:
        if self.fellow.role is not Role.ROUTER or self.fellow.machine.wants(*source):
            self.waiting.setdefault(source, deque()).append((offset, record))

    return [patch.object(PackMember, "queue_record", put)]


# --- P22 --------------------------------------------------------------------------------------------------------------


@_mutant("no-answerer-stands-in", "the mutable part of a frame waits for an answerer that never comes back")
def _no_answerer_stands_in() -> Patches:
    return [patch.object(AnsweringJoiner, "_answer", lambda *_: iter(()))]


@_mutant("no-run-in-place-of-another", "a batch waits for the runs of an answerer that never comes back")
def _no_run_in_place_of_another() -> Patches:
    return [patch.object(AnsweringJoiner, "_send", lambda *_: iter(()))]


@_mutant("answerer-forgets-what-waits", "an answerer drops tuples that only frames under way of other answerers need")
def _answerer_forgets_what_waits() -> Patches:
    return [patch.object(AnsweringJoiner, "_first_kept", lambda _, frame: handed_over(frame))]


@_mutant("late-frame-from-a-later-tail", "an answerer ranks a late frame among the tuples that the newest frame ranks")
def _late_frame_from_a_later_tail() -> Patches:
    sorted_from = StreamStore.sorted_from

    def newest(self: StreamStore, first: int, slot: int, piece: StreamSlice) -> SortedTail:
        tail = self._sorted[slot]
        is_late = tail.end > piece.first_index + len(piece) or tail.first > first
        return tail if is_late else sorted_from(self, first, slot, piece)

    return [patch.object(StreamStore, "sorted_from", newest)]


# --- P15 --------------------------------------------------------------------------------------------------------------


@_mutant("standby-forgets", "a silent instance forgets what it would have said")
def _standby_forgets() -> Patches:
    def said(self: Standby, actions: Iterator[Action]) -> Iterator[Action]:
        yield from (action for action in actions if self._speaks or not isinstance(action, Emit))

    return [patch.object(Standby, "_say_or_keep", said)]


@_mutant("runs-taken-for-made", "a silent instance forgets runs once results are out that needed their batch")
def _runs_taken_for_made() -> Patches:
    handed_over: WeakKeyDictionary[Standby, list[tuple[int, tuple[int, ...]]]] = WeakKeyDictionary()

    def heard(self: Standby, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        if isinstance(record, Frame) and record.is_answered:
            batches = tuple(piece.handover_batch for piece in record.slices)
            handed_over.setdefault(self, []).append((record.frame_id, batches))
        return on_record(self, topic, partition, offset, record)

    def forget(self: Standby, result_position: ResultPosition) -> list[Trim]:
        for frame_id, batches in handed_over.get(self, ()):
            if frame_id < result_position.frame_id:
                self._unsaid = deque(
                    emit
                    for emit in self._unsaid
                    if not isinstance(emit.record, Run) or emit.record.batch_id >= batches[emit.record.stream]
                )
        return on_result_position(self, result_position)

    on_record, on_result_position = Standby.on_record, Standby.on_result_position
    return [patch.object(Standby, "on_record", heard), patch.object(Standby, "on_result_position", forget)]


@_harmless("results-not-learned", "an instance that takes the seat does not learn how far results are out")
def _results_not_learned() -> Patches:
    carry_out = Process._carry_out

    def careless(self: Process, action: Action) -> bool:
        return isinstance(action, TakeOver) or carry_out(self, action)

    return [patch.object(Process, "_carry_out", careless)]


@_mutant("sink-waits-for-others", "a sink waits for the parts of frames that another sink has answered")
def _sink_waits_for_others() -> Patches:
    return [patch.object(SinkMachine, "_skip_to", lambda _self, _result_position: None)]


@_mutant("beats-for-ever", "nobody takes the seat of an instance whose beats have stopped")
def _beats_for_ever() -> Patches:
    def beat(self: Seat, now_ms: float) -> Presence | None:
        self._echoes = min(self._echoes, ECHOES - 1)
        self._has_claimed |= self._holder[0] == self._instance
        return original(self, now_ms)

    original = Seat.beat
    return [patch.object(Seat, "beat", beat)]


@_mutant("retaken-writer-closed", "an instance that takes its seat again gives up what it has under way itself")
def _retaken_writer_closed() -> Patches:
    def give_up(self: AppendsUnderWay, topics: frozenset[Topic], _: SimulatedLog) -> None:
        for target in self._targets(topics):
            del self.queues[target]

    return [patch.object(AppendsUnderWay, "settle", give_up)]


@_harmless("silent-restart", "an instance that spoke and restarts waits for the other one")
def _silent_restart() -> Patches:
    def beat(self: Seat, now_ms: float) -> Presence | None:
        self._has_claimed |= bool(self._holder[0])
        return original(self, now_ms)

    original = Seat.beat
    return [patch.object(Seat, "beat", beat)]


@_harmless("two-speakers", "all instances of a service speak at once; of routers and sinks one alone has the writer")
def _two_speakers() -> Patches:
    is_mine = Seat.is_mine.fget  # type: ignore[attr-defined]

    def always(self: Seat) -> bool:
        has_writer = any(name in self._service for name in ("router", "sink", "together"))
        return is_mine(self) if has_writer else bool(self._holder[0])

    return [patch.object(Seat, "is_mine", property(always))]
