"""A machine of which there are several instances: one speaks, the others know the same and wait (rule P15).

A silent instance reads what the speaker reads and keeps what it would have said until that isn't needed any more. When
it takes the seat it says all of it: what the speaker has said already comes twice, which readers drop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from spojoin.protocol.machine import (
    Action,
    Emit,
    InputMachine,
    InputThrough,
    Leaver,
    Machine,
    ResultPosition,
    TableRows,
    TakeOver,
    Trim,
)
from spojoin.protocol.seat import Seat
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Part, Partial, Presence, Record, Result, Rows, Run

#: What an instance without a seat keeps before it speaks: there may be nobody else, and memory has an end.
UNSAID_MAX = 64


class Standby(Machine):
    """An instance of a service. `partition` is where its service's beats are; without a seat there are none."""

    def __init__(self, machine: Machine, seat: Seat | None, partition: int = 0) -> None:
        self.machine = machine
        self._seat = seat
        self._partition = partition
        self._speaks = False
        self._is_caught_up = False
        self._unsaid: deque[Emit] = deque()
        self._trims: dict[tuple[Topic, int], Trim] = {}

    @property
    def is_silent(self) -> bool:  # type: ignore[override]
        """Whether another instance speaks."""
        return not self._speaks

    # -- records

    def wants(self, topic: Topic, partition: int) -> bool:
        """What the machine wants, and every beat."""
        return topic is Topic.PRESENCE or self.machine.wants(topic, partition)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a record to the machine; hear who speaks."""
        if isinstance(record, Presence):
            if self._seat is not None:
                self._seat.hear(record)
                yield from self._follow_seat(self._seat)
            return
        if isinstance(record, Batch):  # results may be out before it is: who made it may have searched it at once
            self._unsaid = deque(emit for emit in self._unsaid if not _is_made(emit.record, record))
        yield from self._said(self.machine.on_record(topic, partition, offset, record))
        if self._seat is None and len(self._unsaid) > UNSAID_MAX:
            yield from self._speak()

    def _said(self, actions: Iterator[Action]) -> Iterator[Action]:
        for action in actions:
            if isinstance(action, Emit) and not self._speaks:
                self._unsaid.append(action)
            else:
                yield action

    # -- the seat

    def _follow_seat(self, seat: Seat) -> Iterator[Action]:
        if self._speaks and not seat.is_mine:
            self._speaks = False
        elif seat.is_mine and not self._speaks:
            yield from self._speak()
            yield from self.machine.on_chosen()

    def _speak(self) -> Iterator[Action]:
        if not self._speaks:
            self._speaks = True
            yield TakeOver()
            while self._unsaid:
                yield self._unsaid.popleft()

    def on_caught_up(self) -> Iterator[Action]:
        """From now on this instance may speak, when it has the seat; where there is none, it does."""
        self._is_caught_up = True
        yield from self._said(self.machine.on_caught_up())
        if self._seat is None:
            yield from self._speak()
            yield from self.machine.on_chosen()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Beat, and let the machine go on."""
        beat = self._seat.beat(now_ms) if self._seat is not None and self._is_caught_up else None
        if beat is not None:
            yield Emit(Topic.PRESENCE, self._partition, beat)
        yield from self._said(self.machine.on_time(now_ms))

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Forget what needs not be said any more; the speaker trims."""
        trims = self.machine.on_result_position(result_position)
        self._unsaid = deque(emit for emit in self._unsaid if not _is_out(emit.record, result_position))
        self._trims |= {(trim.topic, trim.partition): trim for trim in trims}
        if not self._speaks:
            return []
        due, self._trims = self._trims, {}
        return list(due.values())

    # -- reports

    def is_needed(self) -> bool:
        """Whether others wait for this machine, and no other instance speaks for it."""
        return self._speaks and isinstance(self.machine, Leaver) and self.machine.is_needed()

    def counters(self) -> Mapping[str, float]:
        """What the machine has done, by name."""
        return self.machine.counters()

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return self.machine.state_tuples()

    def state_bytes(self) -> int:
        """Bytes of all indexes."""
        return self.machine.state_bytes()


class InputStandby(Standby, InputThrough):
    """An instance of the service that takes the users' rows; a silent one has not claimed the log."""

    def __init__(self, machine: InputMachine, seat: Seat | None, partition: int = 0) -> None:
        super().__init__(machine, seat, partition)
        self._inputs = machine

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of that input can be taken now."""
        return self._speaks and super().wants_rows(stream, partition)

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input."""
        yield from self._said(self._inputs.on_rows(stream, partition, rows))

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table."""
        yield from self._said(self._inputs.on_table(version))


def standby_of(machine: Machine, seat: Seat | None, partition: int = 0) -> Standby:
    """One instance of a service that may have several."""
    if isinstance(machine, InputMachine):
        return InputStandby(machine, seat, partition)
    return Standby(machine, seat, partition)


def _is_made(record: Record, read: Batch) -> bool:
    """Whether a record is, or is for, the batch that was read from its topic; of runs, also those for earlier ones."""
    if isinstance(record, Run):
        return record.stream == read.stream and record.batch_id <= read.batch_id
    return isinstance(record, Batch) and (record.stream, record.batch_id) == (read.stream, read.batch_id)


def _is_out(record: Record, result_position: ResultPosition) -> bool:
    """Whether results are out for all that a record speaks of."""
    if isinstance(record, Part | Partial):
        return record.frame_id < result_position.frame_id
    if isinstance(record, Result):
        return ResultPosition.behind(record.frame_id, record.end, is_last=record.is_last) <= result_position
    return False
