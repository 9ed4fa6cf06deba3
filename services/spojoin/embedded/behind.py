"""Writing while the join goes on."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from spojoin.embedded.table_writer import TableWriter

#: Bytes of batches that may wait to be written: as many as the join makes while the largest row group is encoded.
ROOM_BYTES = 64 << 20


class WriterBehind(TableWriter):
    """A writer whose batches a thread of its own writes, in their order; an error is raised by a later call."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "spojoin-writer")
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._waiting_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows, and wait while too many bytes are to be written before them."""
        while self._waiting and (self._waiting[0][0].done() or self._waiting_bytes > ROOM_BYTES):
            self._wait()
        self._waiting.append((self._thread.submit(self._writer.write, batch), batch.nbytes))
        self._waiting_bytes += batch.nbytes

    def close(self) -> None:
        """Write what waits and close the file. An error that a batch met is raised, and the file abandoned."""
        try:
            while self._waiting:
                self._wait()
        except BaseException as error:
            self.abandon(error)
            raise
        self._thread.shutdown()
        self._writer.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is."""
        self._thread.shutdown(cancel_futures=True)
        self._writer.abandon(error)

    def _wait(self) -> None:
        written, size = self._waiting.popleft()
        self._waiting_bytes -= size
        written.result()
