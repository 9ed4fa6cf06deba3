"""Arrays by the type of their elements: one name for each, in signatures and in kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: The type of the elements of each; how such a name is made differs between versions of NumPy.
DTYPES: Mapping[Any, np.dtype[Any]] = {
    I8: np.dtype(np.int8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U8: np.dtype(np.uint8),
    U16: np.dtype(np.uint16),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    F64: np.dtype(np.float64),
    Flags: np.dtype(np.bool_),
}
#: Of any of the unsigned types, the narrowest that holds them.
Unsigned = NDArray[Any]
