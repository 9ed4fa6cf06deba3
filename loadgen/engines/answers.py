"""What a probe's partners come to: the questions differ in the state that partners leave, and in what it counts for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from loadgen.engines.variants import I64


class Gathered(Enum):
    """The state of a probe: of its partners s, in SQL, and 0 without any."""

    COUNT = "count(*)"
    SUM = "sum(s.c)"
    #: The number of the newest, plus one.
    LATEST = "max(s.seq) + 1"
    #: A row for each partner: the sum of what they list.
    LIST = "s.c"


class Counted(Enum):
    """What a probe with this state adds to the total."""

    #: The state itself.
    STATE = "state"
    #: At least one: an outer join's rows.
    ROWS = "rows"
    #: One if the state is below a bound.
    BELOW = "below"
    #: c of the row with this number, less one.
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """below: the bound of BELOW; 0 where there is none."""

    gathered: Gathered
    counted: Counted
    below: int = 0

    def gather(self, states: I64, probes: I64, values: I64) -> None:
        """Add to the states (n,) what some partners of `probes` (m,), positions in them, have left: values (m,)."""
        (np.maximum if self.gathered is Gathered.LATEST else np.add).at(states, probes, values)

    def total(self, states: I64, c: I64 | None = None) -> int:
        """What probes with these states, int64 (n,), add up to; c: of all rows, where values count."""
        if self.counted is Counted.VALUE:
            assert c is not None, "questions whose values count read c"
            return int(c[states[states > 0] - 1].sum())
        if self.counted is Counted.BELOW:
            return int(np.count_nonzero(states < self.below))
        return int((np.maximum(states, 1) if self.counted is Counted.ROWS else states).sum())
