"""The test with known rows accepts only correct answers, and waits for services that are still starting."""

import pytest

from loadgen.check.smoke import SmokeFailed, SmokeRow, check
from loadgen.load.load_streams import LOADS
from loadgen.window import window_of
from spojoin.query.load import load_query


@pytest.fixture
def query():
    """A window of 100,000 by slides of 10,000."""
    return load_query(LOADS["q3"].query_path)


def right(first, count=3):
    windows = [seq - window_of(seq, 100_000, 10_000).start for seq in range(first, first + count)]
    return [SmokeRow(first + n, f"mark-{n:03}", window, 0) for n, window in enumerate(windows)]


@pytest.mark.parametrize("first", [0, 5, 99_999, 109_999, 123_456])
def test_correct_answers_pass(query, first):
    check(right(first), query)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda a: [a[0], a[1], a[1]], "doubled"),
        (lambda a: [a[1], a[0], a[2]], "out of order"),
        (lambda a: [a[0], a[1]._replace(as_left=a[1].as_left - 1), a[2]], "mark-001"),
        (lambda a: [a[0], a[1], a[2]._replace(as_right=1)], "mark-002"),
    ],
)
def test_wrong_answers_are_reported(query, damage, said):
    with pytest.raises(SmokeFailed, match=said):
        check(damage(right(123_456)), query)
