"""The interface of a service for the runtime, the embedded engine and the simulator: a deterministic state machine.

A machine uses no clock, randomness, environment or socket. It gets records and the time, and yields the records to
append. Everything that a machine emits is idempotent: readers recognise and drop records that they have seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from spojoin.protocol.topology import Topic
from spojoin.wire.records import Record, Rows, SourceState


class Emit(NamedTuple):
    """Append `record` to `topic`. For dead letters, `partition` is the index of the stream."""

    topic: Topic
    partition: int
    record: Record


class Rewind(NamedTuple):
    """Read `topic` again from its earliest retained record: after a change of workers, skipped batches are needed."""

    topic: Topic


class TakeOver(NamedTuple):
    """This instance speaks from now on: fence the previous speaker, and learn how far results are out (rule P15)."""


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
    def behind(cls, frame_id: int, end: int, *, is_last: bool, step: int = 1) -> ResultPosition:
        """The result position after a frame's results up to `end`; is_last: whether they are the frame's last.

        step: to the next frame in the frame's partition of the results, if there are several (rule P20)
        """
        return cls(frame_id + step, 0) if is_last else cls(frame_id, end)


START = ResultPosition(0, 0)

#: The offset of a record that was passed within a process, and so has no offset in the log.
BY_REFERENCE = -1

Action = Emit | Rewind | TakeOver


class Machine:  # P1.1
    """A service's logic; a subclass overrides how it handles records, the time and the result position.

    A machine starts empty at a result position, gets every input from its earliest retained record, and emits nothing
    that the result position covers. `wants` is back-pressure: reading of an input pauses while it isn't wanted.
    """

    #: whether another instance of its service speaks
    is_silent: bool = False

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether a record of the input can be taken now."""
        return True

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take one record; the iterator may be consumed slowly, but must be exhausted before the next call.

        offset: its offset in the topic, or BY_REFERENCE
        """
        yield from ()

    def on_caught_up(self) -> Iterator[Action]:
        """Called once, when all inputs except the users' were read up to their ends at this machine's start."""
        yield from ()

    def on_chosen(self) -> Iterator[Action]:
        """Called when this instance begins to speak, after `on_caught_up`; at once if it is the only instance."""
        yield from ()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Called with the time `now_ms` (any epoch, monotonic)."""
        yield from ()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Forget what is no longer needed once results are out up to `result_position`; return what may be trimmed."""
        return []

    def counters(self) -> Mapping[str, float]:
        """What the machine has done so far, by name; the numbers only grow."""
        return {}

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return 0

    def state_bytes(self) -> int:
        """Bytes held by indexes."""
        return 0


class Idle(Machine):
    """Takes everything and emits nothing: a service that the query's layout doesn't use."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """A version of a table: all its rows (P17).

    rows: the rows in order, with the dead letters of messages read since the previous version
    content: 64 bits that identify the version's content; read: by partition of its topic, the offset after the last
        message read
    """

    rows: Rows
    content: int
    read: Mapping[int, int] = field(default_factory=dict)


class Holder(NamedTuple):
    """The input that rows wait for: event time, or the first version of a table.

    stream: the number of the input; partition: None if the input has none, and for a table
    partitions: how many partitions the input has; reached_us: the event time that it has reached, None if none yet
    rows: how many rows of all inputs were read and are held back
    """

    stream: int
    partition: int | None
    partitions: int
    reached_us: int | None
    rows: int


class InputMachine(Machine, ABC):
    """A machine that takes rows of the users' inputs as well as records; `active`: whether rows may be read yet."""

    active: bool

    @property
    @abstractmethod
    def is_lingering(self) -> bool:
        """Whether rows wait for time to pass before they go out."""

    @abstractmethod
    def sources(self) -> SourceState:
        """Where to resume each input from which a frame took rows; valid once active."""

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

    def on_position(self, stream: int, partition: int, offset: int) -> Iterator[Action]:
        """The input was read up to `offset`, and holds no more rows for now."""
        yield from ()

    def reads_input(self, stream: int, partition: int) -> bool:
        """Whether the machine takes rows of that input; False if another one does."""
        return True

    def taken_to(self, stream: int, partition: int) -> int | None:
        """If rows come in records, the offset up to which the input was read, and its rows taken; otherwise None."""
        return None

    def waits_since_ms(self) -> int | None:
        """If rows come in records, when the oldest row was produced that no frame has passed, ms since 1970."""
        return None

    def holder(self) -> Holder | None:
        """The input that holds rows back, or None."""
        return None

    @abstractmethod
    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the input would be idle at its end, so that its end must be looked up before `on_input_end`."""


class InputThrough(InputMachine, ABC):
    """A machine that wraps one that takes rows, `_inputs`, and passes on what it doesn't change."""

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

    def on_position(self, stream: int, partition: int, offset: int) -> Iterator[Action]:
        """The input was read up to `offset`."""
        return self._inputs.on_position(stream, partition, offset)

    def reads_input(self, stream: int, partition: int) -> bool:
        """Whether the machine takes rows of that input."""
        return self._inputs.reads_input(stream, partition)

    def taken_to(self, stream: int, partition: int) -> int | None:
        """Up to which offset the input's rows came in records."""
        return self._inputs.taken_to(stream, partition)

    def waits_since_ms(self) -> int | None:
        """When the oldest row was produced that no frame has passed."""
        return self._inputs.waits_since_ms()

    def holder(self) -> Holder | None:
        """The input that holds rows back."""
        return self._inputs.holder()

    def doubts_end(self, stream: int, partition: int) -> bool:
        """Whether the input's end must be looked up."""
        return self._inputs.doubts_end(stream, partition)


class WindowMachine(Machine, ABC):
    """A machine that holds a part of the window and searches it."""

    @abstractmethod
    def counters(self) -> dict[str, float]:
        """What the machine has done so far, by name."""

    @abstractmethod
    def state_tuples(self) -> int:
        """Tuples held in memory."""

    @abstractmethod
    def state_bytes(self) -> int: ...


@runtime_checkable
class Leaver(Protocol):
    """A machine that others may still wait for when its service should end (rule P11)."""

    def is_needed(self) -> bool:
        """Whether present or coming frames wait for this machine's answers."""
        ...
