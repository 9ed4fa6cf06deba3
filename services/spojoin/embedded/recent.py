"""The last rows of a stream, kept to show those that are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from spojoin.embedded.one_batch import taken

#: The least number of rows kept. A row is refused when a frame closes behind it, some thousand rows later, or more
#: where another stream has to catch up first; then its values are gone.
KEPT_ROWS = 1 << 17


class Recent:
    """Batches of one stream's rows, by their positions."""

    def __init__(self) -> None:
        self._batches: deque[pa.RecordBatch] = deque()
        self._end = 0
        self._held = 0

    def keep(self, batch: pa.RecordBatch) -> None:
        """Append rows; old ones are dropped, a whole batch at a time."""
        self._batches.append(batch)
        self._end += batch.num_rows
        self._held += batch.num_rows
        while self._held - self._batches[0].num_rows >= KEPT_ROWS:
            self._held -= self._batches.popleft().num_rows

    def at(self, positions: Iterable[int]) -> dict[int, Mapping[str, object]]:
        """The values by column of the rows at these positions, except those no longer kept."""
        wanted = np.unique(np.fromiter(positions, np.int64))
        found: dict[int, Mapping[str, object]] = {}
        begin = self._end - self._held
        for batch in self._batches if len(wanted) else ():
            here = wanted[(wanted >= begin) & (wanted < begin + batch.num_rows)]
            if len(here):
                found.update(zip(here.tolist(), _values(taken(batch, pa.array(here - begin))), strict=True))
            begin += batch.num_rows
        return found


def _values(batch: pa.RecordBatch) -> list[Mapping[str, object]]:
    """Rows as dicts; times with nanoseconds as text, since Python's have none."""
    columns = [column.cast(pa.string()) if _has_nanoseconds(column.type) else column for column in batch.columns]
    rows: list[Mapping[str, object]] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def _has_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
