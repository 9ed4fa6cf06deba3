"""What takes results, batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from spojoin.embedded.whole_or_nothing import WholeOrNothing

if TYPE_CHECKING:
    import pyarrow as pa


class TableWriter(WholeOrNothing):
    """A file that takes record batches of one schema; rows: those written so far."""

    rows: int

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""
