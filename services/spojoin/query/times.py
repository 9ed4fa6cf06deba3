"""Event times: microseconds since 1970, UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.query.convert import I64, read_integers
from spojoin.query.model import ColumnType, TypeName
from spojoin.query.refusals import Refusals

# Years 1 to 9999: what ISO text can say, and far enough from int64's ends for every window bound.
TIME_US_MIN, TIME_US_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999

_TIMESTAMP = ColumnType(TypeName.TIMESTAMP)


def read_times_us(name: str, array: pa.Array, refusals: Refusals) -> I64:
    """int64 (n,) event times of ISO text, timestamps, dates or integer milliseconds; bad rows are refused as "time".

    Nanoseconds are cut to microseconds, which keeps their order.
    """
    own = Refusals(len(array))
    values = read_integers(name, _TIMESTAMP, _in_microseconds(array), own)
    for row, (_, detail) in own.by_row.items():
        refusals.add(row, "time", detail)
    if len(values) and (values.min() < TIME_US_MIN or values.max() > TIME_US_MAX):
        _refuse_far(name, array, values, own, refusals)
    return values


def _refuse_far(name: str, array: pa.Array, values: I64, own: Refusals, refusals: Refusals) -> None:
    for row in np.flatnonzero((values < TIME_US_MIN) | (values > TIME_US_MAX)).tolist():
        if row not in own.by_row:
            refusals.add(row, "time", f"field {name}: value {array[row]} is not in the years 1 to 9999")


def _in_microseconds(array: pa.Array) -> pa.Array:
    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return array
    return pc.floor_temporal(array, unit="microsecond").cast(pa.timestamp("us"))
