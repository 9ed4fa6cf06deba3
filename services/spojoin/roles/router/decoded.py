"""What a decoder of one registered schema makes of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spojoin.roles.router.line_reader import BadLine, Ids


class Wanted(NamedTuple):
    """The columns that are read of a row, and the field that holds the row, if it isn't the message itself."""

    names: Sequence[str]
    envelope: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of the messages `ids` (n,), in order, and why the others have none; together all that were given."""

    ids: Ids
    rows: pa.RecordBatch
    faults: list[BadLine]

    @classmethod
    def of(cls, ids: Sequence[int], rows: pa.RecordBatch, faults: list[BadLine]) -> Decoded:
        """With the numbers as a list."""
        return cls(np.array(ids, np.int64), rows, faults)


class Decoder(Protocol):
    """Reads messages of one schema; which of them are good never depends on their neighbours."""

    def read(self, messages: Sequence[bytes], wanted: Wanted) -> Decoded:
        """Each message, without the prefix of its schema, as a row or a fault.

        Raises BadMessage where the schema has no such rows, so that no message does.
        """
        ...
