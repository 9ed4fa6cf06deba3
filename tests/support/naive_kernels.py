"""Twins in plain Python: Python's own numbers and loops, nothing of the product but the names of operators."""

import operator
import struct

COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def holds(op_name, width, stored, probe):
    """`stored op probe`, as Python evaluates it on ints or floats."""
    if op_name == "BAND_LT":
        return abs(stored - probe) < width
    if op_name == "BAND_LE":
        return abs(stored - probe) <= width
    return COMPARE[op_name](stored, probe)


def fold(value):
    """The order-keeping int64 of a double."""
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1


def matching(stored, probe, op_names, widths):
    """Places of the stored tuples (tuples of values, one a predicate) that satisfy all predicates."""
    return [
        j
        for j, values in enumerate(stored)
        if all(holds(o, w, v, p) for o, w, v, p in zip(op_names, widths, values, probe, strict=True))
    ]
