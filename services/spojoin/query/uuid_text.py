"""UUIDs of 16 bytes as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Where the hyphens of 8-4-4-4-12 digits cut.
_PARTS = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]

# The stubs of pyarrow don't know that arrays and scalars may be mixed.
_join: Any = pc.binary_join_element_wise


def is_uuid(arrow: pa.DataType) -> bool:
    """Whether it is Arrow's extension type of UUIDs, which Parquet's UUIDs become."""
    return getattr(arrow, "extension_name", "") == "arrow.uuid"


def uuid_texts(array: Any) -> pa.StringArray:  # noqa: ANN401  (the stubs lack the extension's array)
    """UUIDs (n,) of Arrow's extension type as text in lower case with hyphens; NULL stays NULL."""
    values = array.storage
    whole = [bytes(16) if each is None else each for each in values.to_pylist()]
    digits = b"".join(whole).hex().encode()
    ends = np.arange(len(whole) + 1, dtype=np.int32) * 32
    texts = pa.StringArray.from_buffers(len(whole), pa.py_buffer(ends), pa.py_buffer(digits))
    hyphened = _join(*[pc.utf8_slice_codeunits(texts, *part) for part in _PARTS], "-")
    present: pa.StringArray = pc.if_else(values.is_valid(), hyphened, pa.scalar(None, pa.string()))
    return present
