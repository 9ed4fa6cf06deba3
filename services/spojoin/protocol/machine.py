"""What the runtime, the embedded engine and the simulator know about a service: a deterministic state machine.

A machine holds no clock, randomness, environment or socket. It is given records and the time, and yields the records
to append. Everything that a machine emits is idempotent: readers recognise and drop what they have seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from spojoin.protocol.topology import Topic
from spojoin.wire.records import Record, Rows, SourceState


class Emit(NamedTuple):
    """Append `record` to `topic`. `partition` is, for dead letters, the index of the stream."""

    topic: Topic
    partition: int
    record: Record


class Rewind(NamedTuple):
    """Read `topic` again from its earliest retained record: a changed worker count needs batches skipped before."""

    topic: Topic


class TakeOver(NamedTuple):
    """This instance speaks from now on: fence the one before, and learn how far results are out (rule P15)."""


class Trim(NamedTuple):
    """Records of `topic`/`partition` before `offset` are no longer needed."""

    topic: Topic
    partition: int
    offset: int


class ResultPosition(NamedTuple):
    """Results are out for all frames before `frame_id` and, of that frame, for positions before `position`."""

    frame_id: int
    position: int

    @classmethod
    def behind(cls, frame_id: int, end: int, *, is_last: bool) -> ResultPosition:
        """Where a frame's results up to position `end` lead; `is_last`: they are its last ones."""
        return cls(frame_id + 1, 0) if is_last else cls(frame_id, end)


START = ResultPosition(0, 0)

#: The offset of a record that was passed within a process: it has no place in the log.
BY_REFERENCE = -1

Action = Emit | Rewind | TakeOver


class Machine:
    """A service's logic; a child overrides what a record, the time or the results mean to it.

    A machine starts empty at a result position, is fed every input from its earliest retained record, and stays silent
    for what the result position covers. `wants` is back-pressure: an input that is not wanted is not read on.
    """

    #: whether another instance of its service speaks
    is_silent: bool = False

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether a record of that input can be taken now."""
        return True

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take one record; the iterator must be exhausted before the next call, and may be consumed slowly.

        offset: its place in the log, or BY_REFERENCE
        """
        yield from ()

    def on_caught_up(self) -> Iterator[Action]:
        """Every input but the users' has been read up to where it ended when this machine started; comes once."""
        yield from ()

    def on_chosen(self) -> Iterator[Action]:
        """This instance speaks for its service, after `on_caught_up`; where there is no other, at once."""
        yield from ()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """It is now `now_ms` (any epoch, monotonic)."""
        yield from ()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Results are out up to `result_position`: forget what lies behind it and say what may be trimmed."""
        return []

    def counters(self) -> Mapping[str, float]:
        """What it has done so far, by name; numbers that only grow."""
        return {}

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return 0

    def state_bytes(self) -> int:
        """Bytes held by indexes."""
        return 0


class Idle(Machine):
    """Takes everything and emits nothing: a service that a query's layout has no use for."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """All rows of a table: a version of it (P17).

    rows: in their order, with the dead letters of messages read since the version before
    content: 64 bits that tell the version from others; read: by partition of its topic, the offset read up to
    """

    rows: Rows
    content: int
    read: Mapping[int, int] = field(default_factory=dict)


class Holder(NamedTuple):
    """The input that rows wait for: event time, or the first version of a table.

    stream: the number of the input; partition: None where none is there, or of a table
    partitions: how many partitions the input has; reached_us: what event time it has reached, None for nothing yet
    rows: read of all inputs, and held back
    """

    stream: int
    partition: int | None
    partitions: int
    reached_us: int | None
    rows: int


class InputMachine(Machine, ABC):
    """A machine that takes rows of the users' inputs besides records; `active` once it may read them."""

    active: bool

    @property
    @abstractmethod
    def is_lingering(self) -> bool:
        """Whether rows wait for time to pass before they go out."""

    @abstractmethod
    def sources(self) -> SourceState:
        """Where to resume each input that a frame has consumed from; valid once active."""

    @abstractmethod
    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Declare the physical inputs, (stream, partition)."""

    @abstractmethod
    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of that input can be taken now."""

    @abstractmethod
    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input, in its order."""

    @abstractmethod
    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table, once active."""

    @abstractmethod
    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """The input holds no more rows for now, or does after all."""

    def holder(self) -> Holder | None:
        """Which input holds rows back; None where none does."""
        return None

    @abstractmethod
    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the log has to be asked where the input ends before `on_input_end` says so: it would be idle."""


class InputThrough(InputMachine, ABC):
    """A machine around one that takes rows, `_inputs`; what it doesn't change goes through."""

    _inputs: InputMachine

    @property
    def active(self) -> bool:  # type: ignore[override]
        """Whether rows may be read."""
        return self._inputs.active

    @property
    def is_lingering(self) -> bool:
        """Whether rows wait for time to pass."""
        return self._inputs.is_lingering

    def sources(self) -> SourceState:
        """Where to resume each input."""
        return self._inputs.sources()

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Declare the physical inputs."""
        self._inputs.on_inputs(inputs)

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether rows of that input can be taken now."""
        return self._inputs.wants_rows(stream, partition)

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """The input holds no more rows for now, or does after all."""
        self._inputs.on_input_end(stream, partition, ended=ended)

    def holder(self) -> Holder | None:
        """Which input holds rows back."""
        return self._inputs.holder()

    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the log has to be asked where the input ends."""
        return self._inputs.doubts_end(stream, partition)


class WindowMachine(Machine, ABC):
    """A machine that holds a part of the window and searches it."""

    @abstractmethod
    def counters(self) -> dict[str, float]:
        """What it has done so far, by name."""

    @abstractmethod
    def state_tuples(self) -> int:
        """Tuples held in memory."""

    @abstractmethod
    def state_bytes(self) -> int:
        """Bytes held."""


@runtime_checkable
class Leaver(Protocol):
    """A machine that others may wait for after its service was asked to end (rule P11)."""

    def is_needed(self) -> bool:
        """Whether frames under way, or those to come, wait for this machine's answers."""
        ...
