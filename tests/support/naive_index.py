"""A window in plain Python: a list of tuples, a loop, and Python's comparisons."""

import operator

COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "BAND_LT": lambda a, b, w: abs(a - b) < w,
    "BAND_LE": lambda a, b, w: abs(a - b) <= w,
}


class NaiveWindow:
    """Tuples as {index: (codes by slot, seq)}; windows no longer reach below `expired`."""

    def __init__(self):
        self.tuples = {}
        self.expired = 0

    def add(self, first, rows, seqs):
        for i, (row, seq) in enumerate(zip(rows, seqs, strict=True)):
            self.tuples[first + i] = (row, seq)

    def partners(self, predicates, probe, lower):
        """Seqs, ascending; predicates as (op name, width, probe slot, target slot)."""
        return sorted(
            seq
            for index, (row, seq) in self.tuples.items()
            if index >= lower and all(_holds(p, row, probe) for p in predicates)
        )


def _holds(predicate, row, probe):
    op, width, probe_slot, target_slot = predicate
    arguments = (row[target_slot], probe[probe_slot])
    return COMPARE[op](*arguments, width) if op.startswith("BAND") else COMPARE[op](*arguments)
