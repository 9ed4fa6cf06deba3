"""Users' keys, int64 or string arrays; where both types meet, all become strings."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spojoin.wire.columns import Keys

#: the keys of no rows
NO_KEYS: Keys = pa.nulls(0, pa.int64())


def concat_keys(pieces: Sequence[Keys]) -> Keys:
    """All keys in order, int64 if every piece with rows is, else string; pieces without rows don't count."""
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:
        return filled[0] if filled else NO_KEYS
    if len({piece.type for piece in filled}) > 1:
        filled = [piece.cast(pa.string()) for piece in filled]
    return pa.concat_arrays(filled)
