"""Rows of a select list as plain JSON, which needs no registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spojoin.wire.results import JSON
from spojoin.wire.row_values import json_objects


@dataclass(frozen=True, slots=True)
class PlainRows:
    """`RowForm` of JSON objects."""

    content_type: bytes = JSON

    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """One object a row; see `json_objects`."""
        return json_objects(rows)


PLAIN_JSON = PlainRows()
