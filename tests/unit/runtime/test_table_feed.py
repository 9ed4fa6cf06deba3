"""The topic of a query's table on its way into the router's machine: when there is a version."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.protocol.machine import Action, TableRows
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from spojoin.runtime.feeds import DISCOVERY_MS, TableFeed
from spojoin.wire.columns import NO_KEYS
from spojoin.wire.records import Rows
from tests.support.feeding import FakeRouter

NOTHING = np.empty(0, np.int64)


class Reading:
    """Counts the messages that it was given."""

    refresh_ms = 1_000

    def __init__(self) -> None:
        self.messages = 0

    def add_messages(self, partition, messages) -> None:
        self.messages += len(messages)

    def version(self) -> TableRows:
        return TableRows(Rows(NOTHING, NOTHING, 0, (), None, NO_KEYS, NOTHING), self.messages)


class TableRouter(FakeRouter):
    """Notes the versions that it is given, by the number of messages in each."""

    def __init__(self) -> None:
        super().__init__()
        self.active = True
        self.versions: list[int] = []

    def on_table(self, version: TableRows) -> Iterator[Action]:
        self.versions.append(version.content)
        yield from ()


class Feeding:
    def __init__(self, written: int, partitions: int = 2) -> None:
        self.clock, self.reading, self.machine = ManualClock(), Reading(), TableRouter()
        self.log = MemoryLog(self.clock)
        self.log.create_topics({"tiers": partitions}, DEFAULTS[TopicKind.TABLES])
        self.write(written)
        self.feed = TableFeed(self.log, self.machine, "tiers", self.reading, self.clock)

    def write(self, count: int) -> None:
        for number in range(count):
            self.log.writer().append(LogPartition("tiers", 1), b"{}", key=b"%d" % number)

    def versions(self, after_ms: float = 0.0) -> list[int]:
        self.clock.now_ms += after_ms
        list(self.feed.give_version())
        list(self.feed.give_version())
        return self.machine.versions


def test_the_first_version_is_what_the_topic_holds():
    assert Feeding(3).versions() == [3]


def test_a_topic_to_which_nothing_was_written_has_no_version_until_something_is():
    feeding = Feeding(0)
    assert feeding.versions(10 * DISCOVERY_MS) == []
    feeding.write(2)
    assert feeding.versions() == [], "more may come at once"
    assert feeding.versions(Reading.refresh_ms) == [2]


def test_a_table_whose_messages_are_gone_is_empty():
    feeding = Feeding(3)
    feeding.log.trim(LogPartition("tiers", 1), 3)
    assert feeding.versions() == [0]
