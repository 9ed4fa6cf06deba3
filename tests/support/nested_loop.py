"""Joins by a nested loop with Python's own comparisons; only operators' names come from the product.

`stored op probe` is evaluated on numbers, or on NumPy's arrays of them.
"""

import operator
import struct

import numpy as np

from loadgen.window import window_of

COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def holds(op_name, width, stored, probe):
    if op_name == "BAND_LT":
        return abs(stored - probe) < width
    if op_name == "BAND_LE":
        return abs(stored - probe) <= width
    return COMPARE[op_name](stored, probe)


def matching(stored, probe, op_names, widths):
    """Places of the stored tuples (tuples of one value per predicate) that satisfy all predicates."""
    return [
        j
        for j, values in enumerate(stored)
        if all(holds(o, w, v, p) for o, w, v, p in zip(op_names, widths, values, probe, strict=True))
    ]


def partners(columns, holds, length, slide=1, seqs=None):
    """A self join of rows in order: each row's seq, and its earlier partners' as the left and as the right row.

    columns: arrays; holds: whether rows join, by the values of the left row's columns and of the right row's, of which
    one are arrays; seqs: the rows that are asked for, by default all
    """
    for seq in range(len(columns[0])) if seqs is None else seqs:
        inside = window_of(seq, length, slide)
        own, window = [column[seq] for column in columns], [column[inside] for column in columns]
        yield seq, *(inside.start + np.flatnonzero(found) for found in (holds(own, window), holds(window, own)))


def counts(*asked):
    """(seq, as_left, as_right): how many partners each row has; asked: as in `partners`."""
    for seq, as_left, as_right in partners(*asked):
        yield seq, len(as_left), len(as_right)


def pairs(*asked):
    """(probe, left, right) in order; asked: as in `partners`."""
    for seq, as_left, as_right in partners(*asked):
        yield from ((seq, other, seq) for other in as_right.tolist())
        yield from ((seq, seq, other) for other in as_left.tolist())


def pairs_of_rows(rows, holds, length, slide=1):
    """(probe, left, right) in order, of rows that are any values; holds: whether a left and a right row join."""
    for seq in range(len(rows)):
        inside = range(seq)[window_of(seq, length, slide)]
        for left, right in [*((earlier, seq) for earlier in inside), *((seq, earlier) for earlier in inside)]:
            if holds(rows[left], rows[right]):
                yield seq, left, right


class NaiveWindow:
    """Tuples as {index: (codes by slot, seq)}; windows no longer reach below `expired`."""

    def __init__(self):
        self.tuples = {}
        self.expired = 0

    def add(self, first, rows, seqs):
        for i, (row, seq) in enumerate(zip(rows, seqs, strict=True)):
            self.tuples[first + i] = (row, seq)

    def partners(self, predicates, probe, lower):
        """The partners' seqs, ascending."""
        return sorted(
            seq
            for index, (row, seq) in self.tuples.items()
            if index >= lower
            and all(holds(p.op.name, p.width, row[p.target_slot], probe[p.probe_slot]) for p in predicates)
        )


def fold(value):
    """The order-keeping int64 of a double."""
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
