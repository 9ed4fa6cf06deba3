"""Event times: microseconds since 1970, UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.model import ColumnType, TypeName
from spojoin.query.convert import read_integers
from spojoin.query.field import I64
from spojoin.query.refusals import Refusals

# Years 1 to 9999: the range of ISO text, and far enough from int64's ends for every window bound.
TIME_US_MIN, TIME_US_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999

_PLAIN = ColumnType(TypeName.TIMESTAMP)


def read_times_us(name: str, array: pa.Array, refusals: Refusals, declared: ColumnType | None = None) -> I64:
    """int64 (n,) event times of ISO text, timestamps, dates or numbers; bad rows are refused as "time" or "unit".

    Numbers have the type's unit. Where it says none, and in columns of other types, they are milliseconds, unless they
    look like another unit. Digits below a microsecond are cut off, which keeps the order.

    declared: the column's type, None where the schema has none
    """
    own = Refusals(len(array))
    values = read_integers(name, _as_timestamp(declared), array, own, cuts=True)
    for row, (reason, detail) in own.by_row.items():
        refusals.add(row, reason if reason == "unit" else "time", detail)
    if len(values) and (values.min() < TIME_US_MIN or values.max() > TIME_US_MAX):
        _refuse_far(name, array, values, own, refusals)
    return values


def _as_timestamp(declared: ColumnType | None) -> ColumnType:
    return declared if declared is not None and declared.name is TypeName.TIMESTAMP else _PLAIN


def _refuse_far(name: str, array: pa.Array, values: I64, own: Refusals, refusals: Refusals) -> None:
    for row in np.flatnonzero((values < TIME_US_MIN) | (values > TIME_US_MAX)).tolist():
        if row not in own.by_row:
            refusals.add(row, "time", f"field {name}: value {array[row]} is not in the years 1 to 9999")
