"""The columns of a frame's slices in ascending order, sorted once for all machines of a process."""

from __future__ import annotations

import numpy as np

from spojoin.kernels.permutation import sort_column
from spojoin.kernels.ranks import Sought
from spojoin.wire.records import I64, U16, Probes


def sorted_column(piece: Probes, slot: int) -> tuple[I64, U16]:
    """A column as `sort_column` gives it: codes ascending, ties by arrival, and the place of each in the slice."""
    found = piece.sorted_columns.get(slot)
    if found is None:
        piece.sorted_columns[slot] = found = sort_column(piece.codes[slot])
    return found


def sought_column(piece: Probes, slot: int) -> Sought:
    """A column's codes as what all tuples of a slice search for."""
    values, places = sorted_column(piece, slot)
    return Sought(values, places.astype(np.int64))
