"""The test with known rows accepts only correct answers, and waits for services that are still starting."""

import pytest

from loadgen.check import smoke
from loadgen.check.smoke import SmokeFailed, SmokeRow, check, wait_for_topics
from loadgen.load.load_streams import LOADS
from spojoin.errors import Retryable
from spojoin.ports.memory import MemoryLog
from spojoin.query.load import load_query


@pytest.fixture
def query():
    """A window of 100,000 by slides of 10,000."""
    return load_query(LOADS["q3"].query_path)


def right(first, count=3):
    windows = [seq - max(-(-seq // 10_000) * 10_000 - 100_000, 0) for seq in range(first, first + count)]
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


class Starting(MemoryLog):
    """A Kafka that doesn't answer at first, and gets its topics later still."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def partitions(self, topic):
        self.asked += 1
        if self.asked < 3:
            raise Retryable("Kafka is starting")
        if self.asked == 5:
            self.create_topics({"in.racks": 1, "demo.results": 1})
        return super().partitions(topic)


def test_services_that_are_starting_are_waited_for(monkeypatch):
    monkeypatch.setattr(smoke, "POLL_S", 0.0)
    log = Starting()
    wait_for_topics(log, ["in.racks", "demo.results"])
    assert log.asked > 5


def test_what_is_missing_is_reported(monkeypatch):
    monkeypatch.setattr(smoke, "POLL_S", 0.0)
    with pytest.raises(SmokeFailed, match=r"no topic in\.racks"):
        wait_for_topics(MemoryLog(), ["in.racks"], timeout_s=0.0)
    with pytest.raises(SmokeFailed, match="Kafka is starting"):
        wait_for_topics(Starting(), ["in.racks"], timeout_s=0.0)
