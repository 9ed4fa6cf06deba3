"""What the runtime, the embedded engine and the simulator know of a service: a deterministic state machine.

A machine holds no clock, randomness, environment or socket. It is given records and the time, and yields what it
wants appended. Everything that a machine emits is idempotent: readers drop what they have seen by its identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from spojoin.protocol.topology import Topic
from spojoin.wire.records import Record


class Emit(NamedTuple):
    """Append `record` to `topic`. `partition` is, for dead letters, the index of the stream."""

    topic: Topic
    partition: int
    record: Record


class Rewind(NamedTuple):
    """Read `topic` again from its earliest retained record (a changed layout needs batches passed over before)."""

    topic: Topic


class Trim(NamedTuple):
    """Records of `topic`/`partition` before `offset` are needed by nobody any more."""

    topic: Topic
    partition: int
    offset: int


class Watermark(NamedTuple):
    """Results are out for all frames before `frame_id` and, of that frame, for positions before `position`."""

    frame_id: int
    position: int


START = Watermark(0, 0)

Action = Emit | Rewind


class Machine(Protocol):
    """A service's logic.

    A machine starts empty at a watermark, is fed every input from its earliest retained record, and stays silent for
    what the watermark covers. `wants` is back-pressure: an input that is not wanted is not read on.
    """

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether a record of that input can be taken now."""
        ...

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take one record; the iterator must be exhausted before the next call, and may be consumed slowly."""
        ...

    def on_caught_up(self) -> Iterator[Action]:
        """Every input but the users' has been read up to where it ended when this machine started; comes once."""
        ...

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """The time has come to `now_ms` (any epoch, monotonic)."""
        ...

    def on_watermark(self, watermark: Watermark) -> list[Trim]:
        """Results have come to `watermark`: forget what lies behind it and say what may be trimmed."""
        ...


class Idle:
    """A machine that takes everything and says nothing: a service that a query's layout has no use for.

    Machines are made from it, and say what they do where the time, the watermark or catching up mean something to them.
    """

    def wants(self, topic: Topic, partition: int) -> bool:
        """Everything is taken, so that nothing is behind."""
        return True

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Nothing to do."""
        yield from ()

    def on_caught_up(self) -> Iterator[Action]:
        """Nothing to do."""
        yield from ()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Nothing to do."""
        yield from ()

    def on_watermark(self, watermark: Watermark) -> list[Trim]:
        """Nothing to trim."""
        return []


@runtime_checkable
class Leaver(Protocol):
    """A machine that others may wait for after its service was asked to end (rule P11)."""

    def is_needed(self) -> bool:
        """Whether frames under way, or those to come, wait for what this machine would say."""
        ...
