"""Tuples into an input topic: as fast as it goes, or on a schedule that doesn't wait for anybody."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import orjson
import pyarrow as pa

from loadgen.bench.data import Columns
from spojoin.runtime.ports import Input, Log, LogWriter

FLUSH_TIMEOUT_S = 120.0
#: Rows of an Arrow message where throughput is measured.
MESSAGE_ROWS = 4_096
#: Time between the messages of a paced stream.
INTERVAL_S = 0.01


def arrow_messages(data: Columns, rows: int = MESSAGE_ROWS) -> Iterator[bytes]:
    """All tuples as Arrow IPC streams of so many rows."""
    for batch in data.table().to_batches(rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def json_messages(data: Columns) -> Iterator[bytes]:
    """One JSON object a tuple."""
    return (orjson.dumps({"a": a, "b": b}) for a, b in zip(data.a.tolist(), data.b.tolist(), strict=True))


def fill(log: Log[bytes], target: Input, messages: Iterable[bytes]) -> None:
    """Append all messages."""
    writer = log.writer()
    try:
        for message in messages:
            writer.append(target, message)
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()


class PacedProducer:
    """Appends a message every INTERVAL_S from a thread of its own.

    A message carries the time at which it was due, so that a late one makes its tuples later, not fewer.

    Args:
        writer: appends; closed at the end.
        target: where to.
        messages: made beforehand.

    """

    def __init__(self, writer: LogWriter[bytes], target: Input, messages: Sequence[bytes]) -> None:
        self.began_s = 0.0
        self._writer = writer
        self._target = target
        self._messages = messages
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="paced producer", daemon=True)

    def __enter__(self) -> Self:
        self.began_s = time.time()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._writer.close()

    def check(self) -> None:
        """Raise what ended the thread early, if anything."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number, message in enumerate(self._messages):
                due_s = self.began_s + number * INTERVAL_S
                if self._stop.wait(max(0.0, due_s - time.time())):
                    return
                self._writer.append(self._target, message, timestamp_ms=round(due_s * 1000))
            self._writer.flush(FLUSH_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - the thread that waits for results raises it
            self._error = error
