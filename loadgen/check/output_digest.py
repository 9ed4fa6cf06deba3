r"""One line that stands for a whole count output, to compare a run with another, or with the join's definition.

SHA-256 of the text `<seq> <key> <as left> <as right>\n`, a line a tuple in the order of the results; of a cross join
`<seq> <key> <matches>\n`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.model import Query

I64 = NDArray[np.int64]


def reported_sha256(query: Query, rows: pa.Table) -> str:
    """Of the rows of a count output, just as they came."""
    if rows.num_rows == 0:
        return _sha256(())
    counts = ("as_left", "as_right") if query.is_self else ("matches",)
    return _sha256(zip(*(rows[name].to_pylist() for name in ("seq", "key", *counts)), strict=True))


def expected_sha256(query: Query, keys: Sequence[Any], by_role: I64) -> str:
    """Of what the definition gives. keys: of all tuples in order; by_role: int64 (2, n), counts as left and right."""
    counts = by_role if query.is_self else by_role.sum(axis=0, keepdims=True)
    return _sha256(zip(range(len(keys)), keys, *counts.tolist(), strict=True))


def _sha256(rows: Iterable[tuple[Any, ...]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update((" ".join(map(str, row)) + "\n").encode())
    return sha.hexdigest()
