"""Tuples into an input topic: as fast as possible, or on a fixed schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.load.messages import ipc_bytes, json_objects
from loadgen.load.open_loop import FLUSH_TIMEOUT_S, OpenLoop, Packet, WriterSender
from loadgen.promises.data import Columns
from spojoin.ports.interfaces import Log, LogPartition, LogWriter

#: Rows of an Arrow message where throughput is measured.
MESSAGE_ROWS = 4_096
#: Time between the messages of a paced stream.
INTERVAL_S = 0.01


def arrow_messages(data: Columns | pa.Table, rows: int = MESSAGE_ROWS) -> Iterator[bytes]:
    """All tuples as Arrow IPC streams of `rows` rows."""
    return map(ipc_bytes, _table(data).to_batches(rows))


def json_messages(data: Columns | pa.Table) -> Iterator[bytes]:
    """One JSON object a tuple."""
    return (value for batch in _table(data).to_batches(MESSAGE_ROWS) for value in json_objects(batch))


def _table(data: Columns | pa.Table) -> pa.Table:
    return data if isinstance(data, pa.Table) else data.table()


def fill(log: Log[bytes], target: LogPartition, messages: Iterable[bytes]) -> None:
    """Append all messages."""
    writer = log.writer()
    try:
        for message in messages:
            writer.append(target, message)
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()


class PacedProducer(OpenLoop):
    """Appends a message every INTERVAL_S from a thread of its own.

    A message carries the time at which it was due, so that a late one makes its tuples later, not fewer.

    Args:
        writer: appends; closed at the end.
        target: where to.
        messages: made beforehand.

    """

    def __init__(self, writer: LogWriter[bytes], target: LogPartition, messages: Sequence[bytes]) -> None:
        packets = (Packet(number * INTERVAL_S, target, [message], 1) for number, message in enumerate(messages))
        super().__init__(WriterSender(writer), packets)
