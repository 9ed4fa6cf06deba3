"""Seeds that fail, each with the fault that it shows. Once a fault is mended its test fails, and the seed is kept."""

from __future__ import annotations

import pytest

from spojoin.simulate.runner import REPLACED, REPLACED_STATEMENTS, SERVED

#: A router that starts on a log which was trimmed, in a later generation, doesn't know where that began: its windows
#: reach before it, and sinks wait for rows that nobody has.
WINDOW_BEFORE_THE_BEGINNING = (3380045869465817623, 3380045869465817655, 3380045869465819363, 3380045869465819943)
#: A joiner sends the run of a batch again that has expired; the permutation service, new as well, knows of no such
#: batch, and the run waits for the others until another batch of the stream is made.
RUNS_OF_AN_EXPIRED_BATCH = (3380045869465818836, 3380045869465822250, 4294968906, 4294969071)
#: Rows are in no generation's log, or in a log as answered though none answered them, after two takeovers, or one.
ROWS_BETWEEN_GENERATIONS = (3380045869465817351, 3380045869465823114, 3380045869465817658)
#: What fresh seeds may meet of them, by the reason that they give.
REASONS = (r"records of runs are retained", r"^generation \d+: ")

KINDS = {
    3380045869465818836: SERVED,
    4294968906: SERVED,
    4294969071: SERVED,
    3380045869465822250: REPLACED,
    3380045869465823114: REPLACED,
    3380045869465817658: REPLACED,
}


@pytest.mark.xfail(strict=True, reason="an open fault")
@pytest.mark.parametrize("seed", [*WINDOW_BEFORE_THE_BEGINNING, *RUNS_OF_AN_EXPIRED_BATCH, *ROWS_BETWEEN_GENERATIONS])
def test_the_seed_finds_none(seed):
    failure = KINDS.get(seed, REPLACED_STATEMENTS).run(seed)
    assert failure is None, failure.account
