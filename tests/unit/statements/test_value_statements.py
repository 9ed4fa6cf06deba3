"""Values of every kind, by every door, are joined as DuckDB joins them, or refused with a way out that does."""

import os
from random import SystemRandom

from tests.support.value_statements import draw_values

#: Statements of a run; searched by `VALUE_SEED=1 VALUE_COUNT=5000`.
COUNT = 60


def test_fresh_statements_over_values_are_those_of_duckdb(tmp_path):
    first = int(os.environ.get("VALUE_SEED") or SystemRandom().randrange(10**9))
    print(f"the same again: VALUE_SEED={first}")
    found = []
    for seed in range(first, first + int(os.environ.get("VALUE_COUNT") or COUNT)):
        drawn = draw_values(seed)
        finding = drawn.finding(tmp_path)
        if finding is not None:
            found.append(f"seed {seed}: {drawn}\n{finding}")
    assert not found, "\n".join([f"VALUE_SEED={first}", *found])
