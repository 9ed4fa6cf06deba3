"""An open loop: messages go out when they are due, however late the answers are.

Each carries the moment at which it was due. So a measurement from there to the result shows what a user would have
seen under overload too, where a loop that waits for its answers would just send less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from spojoin.ports.interfaces import LogPartition, LogWriter

FLUSH_TIMEOUT_S = 120.0
#: A producer this late wasn't only held up by another process.
BEHIND_S = 1.0


class Packet(NamedTuple):
    """Messages that are due together, `due_s` seconds after the start; `rows` in all of them."""

    due_s: float
    target: LogPartition
    values: Sequence[bytes]
    rows: int


class Sender(Protocol):
    """Where packets go to."""

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        """Queue messages in order, waiting while the queue is full; raises what became of earlier ones."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Return when all that was sent is there; raises as `send` does."""
        ...

    def close(self) -> None:
        """Give up what is not there yet."""
        ...


class WriterSender:
    """A sender by the log port's writer."""

    def __init__(self, writer: LogWriter[bytes]) -> None:
        self._writer = writer

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        """Append all."""
        for value in values:
            self._writer.append(target, value, timestamp_ms=timestamp_ms)

    def flush(self, timeout_s: float) -> None:
        """Return when all is readable."""
        self._writer.flush(timeout_s)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Behind:
    """That the producer itself can't hold its rate: how late it is, and what it has done in how long.

    sending_s: how much of that time went into Kafka's client, waiting for room in its queue included
    """

    behind_s: float
    rows: int
    seconds: float
    sending_s: float

    def __str__(self) -> str:
        return (
            f"the load generator itself can't hold this rate: {self.behind_s:.1f} s late after {self.seconds:.1f} s, "
            f"it has sent {self.rows:,} rows, {self.rows / self.seconds:,.0f} a second, with Kafka's client "
            f"{self.sending_s / self.seconds:.0%} of the time"
        )


class OpenLoop:
    """Sends packets from a thread of its own when they are due, until they end or `stop`.

    began_s, ended_s, acknowledged_s: seconds since 1970; the last packet was sent, and everything was acknowledged
    rows, messages: sent so far; behind_s_max: the latest that a packet was

    Args:
        sender: takes them; closed at the end.
        packets: by ascending `due_s`; made while they are sent, so they must come faster than they are due.
        on_behind: called once, from that thread, if the producer itself is BEHIND_S late.

    """

    def __init__(
        self, sender: Sender, packets: Iterable[Packet], on_behind: Callable[[Behind], None] = lambda _: None
    ) -> None:
        self.began_s = 0.0
        self.ended_s: float | None = None
        self.acknowledged_s: float | None = None
        self.rows = 0
        self.messages = 0
        self.behind_s_max = 0.0
        self._sender = sender
        self._packets = iter(packets)
        self._on_behind = on_behind
        self._sending_s = 0.0
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="open loop", daemon=True)

    def __enter__(self) -> Self:
        # The first packet takes longest to make; the clock starts behind it.
        self._packets = chain(list(islice(self._packets, 1)), self._packets)
        self.began_s = time.time()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sender.close()

    @property
    def is_done(self) -> bool:
        """Whether everything was sent and acknowledged."""
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """Since the start, up to the last packet."""
        return (self.ended_s or time.time()) - self.began_s

    def stop(self) -> None:
        """Send no more; what was sent is still brought to its end."""
        self._stop.set()

    def check(self) -> None:
        """Raise what ended the thread early, if anything."""
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> None:
        """Wait for the end, this long at most; raises as `check` does."""
        self._thread.join(seconds)
        self.check()

    def _run(self) -> None:
        try:
            for packet in self._packets:
                due_s = self.began_s + packet.due_s
                if self._stop.wait(max(0.0, due_s - time.time())):
                    break
                self._send(packet, due_s)
            self.ended_s = time.time()
            self._sender.flush(FLUSH_TIMEOUT_S)
            self.acknowledged_s = time.time()
        except Exception as error:  # noqa: BLE001 - raised where the end is awaited
            self._error = error

    def _send(self, packet: Packet, due_s: float) -> None:
        began_s = time.time()
        self._note_lateness(began_s - due_s)
        self._sender.send(packet.target, packet.values, round(due_s * 1000))
        self._sending_s += time.time() - began_s
        self.rows += packet.rows
        self.messages += len(packet.values)

    def _note_lateness(self, behind_s: float) -> None:
        if self.behind_s_max <= BEHIND_S < behind_s:
            self._on_behind(Behind(behind_s, self.rows, self.seconds, self._sending_s))
        self.behind_s_max = max(self.behind_s_max, behind_s)
