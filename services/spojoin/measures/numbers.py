"""Arrow values as NumPy's numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64, Flags
from spojoin.kernels.codes import fold_doubles


def flags(values: pa.Array) -> Flags:
    """Which values are true; none of them may be NULL."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def halves(values: pa.Array) -> tuple[NDArray[np.uint64], I64]:
    """Integers or decimals as 128 bits, lower and upper half, (n,) each; NULL is 0."""
    if pa.types.is_uint64(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if pa.types.is_integer(values.type):
        numbers = _filled(values.cast(pa.int64()), 0).to_numpy()
        return numbers.view(np.uint64), numbers >> 63
    filled = _filled(values, 0)
    bits = np.frombuffer(filled.buffers()[1], np.int64, 2 * len(filled), 16 * filled.offset).reshape(-1, 2)
    return np.ascontiguousarray(bits[:, 0]).view(np.uint64), np.ascontiguousarray(bits[:, 1])


def doubles(values: pa.Array) -> NDArray[np.float64]:
    """Numbers as doubles, rounded, (n,); NULL is 0."""
    return np.asarray(_filled(values.cast(pa.float64(), safe=False), 0.0).to_numpy(), np.float64)


def codes(values: pa.Array) -> I64:
    """Codes, int64 (n,), with the order of the values, whose type `ColumnType.is_coded`; for NULL, any code."""
    if pa.types.is_floating(values.type):
        return fold_doubles(doubles(values))
    if pa.types.is_decimal(values.type):
        return halves(values)[0].view(np.int64)
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    return np.asarray(_filled(values.cast(pa.int64()), 0).to_numpy(), np.int64)


def _filled(values: pa.Array, value: float) -> pa.Array:
    """The values with a number in place of NULL; copied only if there is a NULL."""
    return values.fill_null(value) if values.null_count else values
