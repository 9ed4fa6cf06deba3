"""A condition of stored codes and a probe's by NumPy over all of them."""

import numpy as np

from spojoin.model import Op

#: Of bands.
WIDTH = 3


def holds(op, stored, probe):
    """Which stored codes the condition is true of, bool (n,)."""
    return {
        Op.LT: stored < probe,
        Op.LE: stored <= probe,
        Op.GT: stored > probe,
        Op.GE: stored >= probe,
        Op.EQ: stored == probe,
        Op.NE: stored != probe,
        Op.BAND_LT: np.abs(stored - probe) < WIDTH,
        Op.BAND_LE: np.abs(stored - probe) <= WIDTH,
    }[op]
