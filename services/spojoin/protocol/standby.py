"""A service with several instances (rule P15): one speaks, the others follow in silence.

The log decides which instance speaks, since all instances read it. Every instance writes beats into the service's
partition of `presence`, each only after it has read back its previous one; the speaker's beats are marked as such.
Another instance takes the seat when it has read ECHOES of its own beats in a row with none of the speaker's between
them. So it mistakes neither its own stall nor a slow log for the speaker's end, and clocks only pace the beats. If two
instances speak at once, they emit the same records.

A silent instance reads what the speaker reads, and keeps what it would have emitted for as long as that is needed. When
it takes the seat, it emits all of it; readers drop the records that the speaker has emitted already.
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
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Part, Partial, Presence, Record, Result, Rows, Run

#: How many of its own beats an instance must read, with none of the speaker's between them, before it takes the seat.
ECHOES = 5


class Seat:
    """One instance's view of its service's seat.

    instance: its name among the service's instances; life: distinguishes its restarts
    patience_ms: how long the speaker may be silent, up to one interval (a fifth of this) longer
    is_heir: whether it may follow an earlier life of its instance at once; not if a later life has fenced it
    """

    def __init__(self, service: str, instance: str, life: str, patience_ms: float, *, is_heir: bool = True) -> None:
        self._service = service
        self._instance = instance
        self._life = life
        self._interval_ms = patience_ms / ECHOES
        self._next_ms: float | None = None
        self._awaits_echo = False
        self._echoes = 0
        self._has_claimed = not is_heir
        self._term = 0
        self._holder = ("", "")

    @property
    def is_mine(self) -> bool:
        """Whether this instance speaks."""
        return self._holder == (self._instance, self._life)

    def accept_beat(self, presence: Presence) -> None:
        """Take a record of the partition, which other services may share."""
        if presence.service != self._service:
            return
        if presence.speaks:
            self._hear_speaker(presence)
        if presence.life == self._life:
            self._hear_echo(presence)

    def _hear_speaker(self, presence: Presence) -> None:
        speaker = presence.instance, presence.life
        if presence.term > self._term:  # if two claim the same term, the first in the log gets it
            self._term, self._holder = presence.term, speaker
        if (presence.term, speaker) == (self._term, self._holder):
            self._echoes = 0

    def _hear_echo(self, echo: Presence) -> None:
        self._awaits_echo = False
        self._echoes += 0 if echo.speaks else 1
        if self._echoes >= ECHOES:  # the claim needn't wait for the next interval
            self._next_ms = None

    def beat(self, now_ms: float) -> Presence | None:  # P15.1
        """The beat to write now, which may claim the seat; None if none is due."""
        if self._awaits_echo or (self._next_ms is not None and now_ms < self._next_ms):
            return None
        self._next_ms, self._awaits_echo = now_ms + self._interval_ms, True
        if self.is_mine:
            return self._presence(self._term, speaks=True)
        # A restarted instance takes its seat at once, but doesn't compete with an earlier life that isn't over.
        is_next_life = self._holder[0] == self._instance and not self._has_claimed
        is_free = not self._holder[0] or is_next_life or self._echoes >= ECHOES  # P15.2
        self._has_claimed |= is_free
        return self._presence(self._term + is_free, speaks=is_free)

    def _presence(self, term: int, *, speaks: bool) -> Presence:
        return Presence(self._service, self._instance, self._life, term, speaks)


#: How many records an instance without a seat keeps before it speaks: it may be the only one, and memory is limited.
UNSAID_MAX = 64


class Standby(Machine):
    """An instance of a service. `partition`: the one of its service's beats; without a seat there are none."""

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
        """Whether a record can be taken now: every beat, and what the machine wants."""
        return topic is Topic.PRESENCE or self.machine.wants(topic, partition)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a record to the machine, or a beat to the seat."""
        if isinstance(record, Presence):
            if self._seat is not None:
                self._seat.accept_beat(record)
                yield from self._follow_seat(self._seat)
            return
        if isinstance(record, Batch):  # results may be out before it is, since its maker may search it at once
            self._forget_made(record)
        yield from self._say_or_keep(self.machine.on_record(topic, partition, offset, record))
        if self._seat is None and len(self._unsaid) > UNSAID_MAX:  # P15.6
            yield from self._speak()

    def _say_or_keep(self, actions: Iterator[Action]) -> Iterator[Action]:  # P15.3
        for action in actions:
            if isinstance(action, Emit) and not self._speaks:
                self._unsaid.append(action)
            else:
                yield action

    def _forget_made(self, batch: Batch) -> None:
        """Forget what was kept for a batch that was read from its topic.

        It says nothing about earlier ones: other joiners, or the answerers of another packing, may have sorted it.
        """
        self._unsaid = deque(emit for emit in self._unsaid if not _is_made(emit.record, batch))

    # -- the seat

    def _follow_seat(self, seat: Seat) -> Iterator[Action]:
        if self._speaks and not seat.is_mine:
            self._speaks = False
        elif seat.is_mine and not self._speaks:
            yield from self._speak()
            yield from self.machine.on_chosen()

    def _speak(self) -> Iterator[Action]:  # P15.4
        if not self._speaks:
            self._speaks = True
            yield TakeOver()
            while self._unsaid:
                yield self._unsaid.popleft()

    def on_caught_up(self) -> Iterator[Action]:
        """From now on this instance may speak once it has the seat; if there are no seats, it speaks at once."""
        self._is_caught_up = True
        yield from self._say_or_keep(self.machine.on_caught_up())
        if self._seat is None:
            yield from self._speak()
            yield from self.machine.on_chosen()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Write a beat if one is due, and give the machine the time."""
        beat = self._seat.beat(now_ms) if self._seat is not None and self._is_caught_up else None
        if beat is not None:
            yield Emit(Topic.PRESENCE, self._partition, beat)
        yield from self._say_or_keep(self.machine.on_time(now_ms))

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Forget kept records that are no longer needed; only the speaker trims."""
        trims = self.machine.on_result_position(result_position)
        self._unsaid = deque(emit for emit in self._unsaid if not _is_out(emit.record, result_position))
        self._trims |= {(trim.topic, trim.partition): trim for trim in trims}
        if not self._speaks:
            return []
        due, self._trims = self._trims, {}
        return list(due.values())

    # -- reports

    def is_needed(self) -> bool:
        """Whether others wait for this machine, and this instance speaks."""
        return self._speaks and isinstance(self.machine, Leaver) and self.machine.is_needed()

    def counters(self) -> Mapping[str, float]:
        """What the machine has done, by name."""
        return self.machine.counters()

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return self.machine.state_tuples()

    def state_bytes(self) -> int:
        """Bytes held by all indexes."""
        return self.machine.state_bytes()


class InputStandby(Standby, InputThrough):
    """An instance of the service that takes the users' rows; a silent instance hasn't claimed the log."""

    def __init__(self, machine: InputMachine, seat: Seat | None, partition: int = 0) -> None:
        super().__init__(machine, seat, partition)
        self._inputs = machine

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of the input can be taken now."""
        return self._speaks and super().wants_rows(stream, partition)

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input."""
        yield from self._say_or_keep(self._inputs.on_rows(stream, partition, rows))

    def on_position(self, stream: int, partition: int, offset: int) -> Iterator[Action]:
        """Note that the input was read up to `offset`."""
        yield from self._say_or_keep(self._inputs.on_position(stream, partition, offset))

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table."""
        yield from self._say_or_keep(self._inputs.on_table(version))


def standby_of(machine: Machine, seat: Seat | None, partition: int = 0) -> Standby:
    """One instance of a service that may have several instances."""
    if isinstance(machine, InputMachine):
        return InputStandby(machine, seat, partition)
    return Standby(machine, seat, partition)


def _is_made(record: Record, read: Batch) -> bool:
    """Whether a record is the batch that was read from its topic, or a run for it."""
    return isinstance(record, Run | Batch) and (record.stream, record.batch_id) == (read.stream, read.batch_id)


def _is_out(record: Record, result_position: ResultPosition) -> bool:
    """Whether results are out for everything that a record answers."""
    if isinstance(record, Part | Partial):
        return record.frame_id < result_position.frame_id
    if isinstance(record, Result):
        return ResultPosition.behind(record.frame_id, record.end, is_last=record.is_last) <= result_position
    return False
