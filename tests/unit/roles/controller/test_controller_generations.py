"""The controller follows the generation that answers: the store's entries concern that one's log."""

from __future__ import annotations

from dataclasses import replace

from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.topology import FIRST_GENERATION, Role, Topic
from spojoin.roles.controller.__main__ import ControlledQuery, limits_of, supervise
from spojoin.runtime.settings import Settings
from spojoin.wire.codec import encode
from spojoin.wire.records import Announcement, Takeover
from tests.support.controller_world import FakeCluster, StopWhen
from tests.support.runtime_world import TOPICS, Bench

SETTINGS = Settings(query_file="q", workers=2, workers_max=4)
FIRST, SECOND = TOPICS, replace(TOPICS, generation=2)


def served(bench, *records):
    """Append records to the generations topic, making it if necessary."""
    source = LogPartition(TOPICS.name(Topic.GENERATIONS), 0)
    bench.log.create_topics({source.topic: 1})
    writer = bench.log.writer()
    for record in records:
        writer.append(source, encode(record))
    writer.flush(1)


def announced(generation):
    return Announcement(generation, generation, "name: q", "window")


def taken_over():
    return Takeover(2, FIRST_GENERATION, {}, (), {})


def supervised(bench, until):
    controlled = ControlledQuery(FakeCluster(2), TOPICS, SETTINGS, limits_of(SETTINGS))
    supervise(controlled, bench.world, StopWhen(until, bench.clock))


def test_a_start_after_a_takeover_makes_no_topic_of_the_generation_before():
    bench = Bench(Role.CONTROLLER)
    bench.log.delete_topics(FIRST.names_of_generation())
    served(bench, announced(1), announced(2), taken_over())
    supervised(bench, lambda: bench.health.ready()[0])
    assert not bench.log.partitions(FIRST.name(Topic.FRAMES))
    assert bench.shared.log_id == bench.log.topic_id(SECOND.name(Topic.FRAMES))


def test_a_takeover_is_noticed_and_an_announcement_alone_changes_nothing():
    bench, seen = Bench(Role.CONTROLLER), []
    served(bench, announced(1))
    coming = [announced(2), taken_over()]

    def is_done():
        if not seen or seen[-1] != bench.shared.log_id:
            seen.append(bench.shared.log_id)
        if bench.health.ready()[0] and coming:
            served(bench, coming.pop(0))
        return len(seen) == 3

    supervised(bench, is_done)
    frames = [bench.log.topic_id(each.name(Topic.FRAMES)) for each in (FIRST, SECOND)]
    assert seen[1:] == frames
