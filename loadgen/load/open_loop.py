"""An open loop sends messages when they are due, regardless of how late the answers are.

Each message carries the time at which it was due. So the latency from then to the result is a user's latency, even
under overload. A loop that waits for its answers would only send less.
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
#: A producer that is this late wasn't merely delayed by another process.
BEHIND_S = 1.0


class Packet(NamedTuple):
    """Messages that are due together, `due_s` seconds after the start; `rows` in all of them."""

    due_s: float
    target: LogPartition
    values: Sequence[bytes]
    rows: int


class Sender(Protocol):
    """The receiver of packets."""

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        """Queue messages in order, waiting while the queue is full; raises errors of earlier ones."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Return when all sent messages are delivered; raises as `send` does."""
        ...

    def close(self) -> None:
        """Drop messages that are not delivered yet."""
        ...


class WriterSender:
    """A sender that uses the log port's writer."""

    def __init__(self, writer: LogWriter[bytes]) -> None:
        self._writer = writer

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        for value in values:
            self._writer.append(target, value, timestamp_ms=timestamp_ms)

    def flush(self, timeout_s: float) -> None:
        """Return when all messages are readable."""
        self._writer.flush(timeout_s)

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Behind:
    """The producer itself can't hold its rate. Holds its delay, and the rows and time so far.

    sending_s: how much of that time Kafka's client took, including waits for room in its queue
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
    """Sends packets when they are due, in its own thread, until they end or `stop` is called.

    began_s, ended_s, acknowledged_s: when it began, sent the last packet and had everything acknowledged, in seconds
    since 1970 rows, messages: sent so far; behind_s_max: the latest that a packet was

    Args:
        sender: takes packets; closed at the end.
        packets: by ascending `due_s`; made while sending, so making them must be faster than their rate.
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
        # The first packet takes longest to make; the clock starts after it.
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
        """Seconds from the start to the last packet."""
        return (self.ended_s or time.time()) - self.began_s

    def stop(self) -> None:
        """Stop sending; sent messages are still delivered."""
        self._stop.set()

    def check(self) -> None:
        """Raise the error that ended the thread early, if any."""
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> None:
        """Wait for the end for at most `seconds`; raises as `check` does."""
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
        except Exception as error:  # noqa: BLE001 - raised by `check`
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
