"""Kafka headers as a column: a map from name to text for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.model import HEADERS

Headers = Sequence[tuple[str, bytes | None]]
#: Adds the column to rows (n,), given the numbers of their messages, or lines, (n,).
AddHeaders = Callable[[pa.RecordBatch, NDArray[np.int64]], pa.RecordBatch]

_TYPE = pa.map_(pa.string(), pa.string())


def header_column(messages: Sequence[Headers]) -> pa.MapArray:
    """Of each message its headers; of several by one name the last, which is Kafka's rule. Bytes are UTF-8.

    What isn't has U+FFFD in its place; a header without a value is null.
    """
    return pa.array([list(_texts(headers).items()) for headers in messages], _TYPE)


def with_headers(rows: pa.RecordBatch, column: pa.MapArray, owners: NDArray[np.int64]) -> pa.RecordBatch:
    """Rows (n,) and the headers of their messages, by the numbers (n,) of these in `column`."""
    return rows.append_column(HEADERS, column.take(pa.array(owners)))


def _texts(headers: Headers) -> dict[str, str | None]:
    return {name: None if value is None else value.decode(errors="replace") for name, value in headers}
