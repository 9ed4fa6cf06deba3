"""Topics are lost while a query rests, and the query is restored as RUNBOOK.md describes.

The ordered results of all generations equal a nested loop over all rows: none is missing, wrong or duplicated.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from confluent_kafka.admin import AdminClient

from spojoin.local.cluster import LocalCluster
from spojoin.protocol.topology import Topic
from tests.support.disasters import (
    BEFORE,
    HARMLESS,
    MORE,
    RESTORE,
    RESULTS,
    AllResults,
    DisasterStage,
    delete_topics,
    expected,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def stage(cluster: LocalCluster, tmp_path: Path, unique: str) -> DisasterStage:
    return DisasterStage(cluster, tmp_path, f"lost-{unique}")


@pytest.mark.long
def test_what_is_lost_of_these_while_nothing_runs_costs_nothing(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, [*stage.topics(*HARMLESS), f"{stage.topic}.dlq"])
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1})


@pytest.mark.long
def test_a_lost_log_ends_the_services_and_is_restored(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(Topic.FRAMES))
    stage.send(MORE)
    stage.fails("topic frames ends after 0", "spojoin restore QUERY")
    assert "generation 2" in stage.run(RESTORE)
    with stage.served() as running:
        stage.read_all(running)
    stage.check({1, 2})


def test_a_lost_window_is_restored_and_then_all_but_inputs_and_results_may_be_lost(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(Topic.BATCHES))
    stage.send(MORE)
    stage.fails("which windows still reach", "spojoin restore QUERY")
    assert "generation 2" in stage.run(RESTORE)
    with stage.served() as running:
        stage.read_all(running)
    stage.check({1, 2})
    every = AdminClient({"bootstrap.servers": stage.bootstrap}).list_topics(timeout=30).topics
    kept = {stage.topic, *stage.topics(Topic.RESULTS)}
    delete_topics(stage.bootstrap, [topic for topic in every if topic.startswith(stage.name) and topic not in kept])
    assert "generation 3" in stage.run(RESTORE)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1, 2, 3})
    assert len(stage.run(RESULTS).splitlines()) == stage.rows


def test_lost_results_go_on_where_redis_knows_their_end(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(Topic.RESULTS))
    stage.results = AllResults(stage.bootstrap, stage.name, is_whole=False)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running, MORE)
    stage.check({1}, BEFORE)


def test_lost_results_are_answered_again_as_far_as_the_log_reaches(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(Topic.RESULTS))
    redis.Redis.from_url(stage.cluster.redis.url).flushall()
    stage.send(MORE)
    stage.results = AllResults(stage.bootstrap, stage.name, is_whole=False)
    stage.fails("results are lost")
    stage.run(RESTORE)
    with stage.served() as running:
        stage.read_until(running, lambda: (stage.results.rows or [(0,)])[-1][0] == stage.rows - 1)
    first = stage.results.rows[0][0]
    assert 0 < first <= BEFORE
    stage.check({2}, first)


def test_an_input_made_anew_is_taken_from_its_first_row_on(stage: DisasterStage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, [stage.topic])
    stage.fails(f"was read to offset {BEFORE:,} and ends at 0")
    assert f"created again, and read from their first row: {stage.topic}/0" in stage.run(RESTORE)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    assert [row[:2] for row in stage.results.rows] == [row[:2] for row in expected(0, stage.rows)]
