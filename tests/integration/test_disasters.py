"""Topics are lost while a query runs and while it doesn't, and a query moves to another Kafka: as DISASTERS.md says.

The ordered results of all generations equal a nested loop over all rows: none is lost, wrong or there twice.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spojoin.local.broker import LocalBroker
from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import ServiceError
from spojoin.protocol.topology import Topic, input_topic, topic_name
from tests.support.disasters import SIZES, SPREAD, AllResults, delete_topics, disaster_text, expected, send_rows
from tests.support.served import PATIENCE_S, Served, served

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "helm/spojoin/DISASTERS.md").read_text()
COMMANDS = [match.strip() for match in re.findall(r"(?m)^ {4,}(spojoin .*)$", PAGE)]
#: Internal topics of which nothing is needed that services don't say again.
HARMLESS = (Topic.MATCHES, Topic.PARTIALS, Topic.RUNS, Topic.PLAN, Topic.CONTROL, Topic.GENERATIONS)
#: Rows answered before a topic is lost: more than a window, so that some are in batches alone.
BEFORE, MORE = 1_500, 300
#: After this time topics are trimmed as far as they are when results rest.
TRIMMED_S = 3.0


@dataclass(slots=True)
class Stage:
    """One query, the rows that were sent to it, and its results."""

    cluster: LocalCluster
    folder: Path
    name: str
    rows: int = 0
    results: AllResults = field(init=False)

    def __post_init__(self) -> None:
        self.results = AllResults(self.bootstrap, self.name)

    @property
    def bootstrap(self) -> str:
        return self.cluster.broker.bootstrap

    @property
    def topic(self) -> str:
        return f"{self.name}.{input_topic('readings')}"

    def topics(self, *topics: Topic) -> list[str]:
        return [topic_name(self.name, topic) for topic in topics]

    def send(self, count: int) -> None:
        send_rows(self.bootstrap, self.topic, range(self.rows, self.rows + count))
        self.rows += count

    @contextmanager
    def served(self, cluster: LocalCluster | None = None) -> Iterator[Served]:
        text = disaster_text(self.name)
        with served(cluster or self.cluster, self.folder, text, 1, SIZES, restarts_max=0, packing=SPREAD) as running:
            yield running

    def read_all(self, running: Served, rows: int | None = None) -> None:
        """Read results until all rows, or so many, are answered."""
        wanted = self.rows if rows is None else rows

        self.read_until(running, lambda: len(self.results.rows) >= wanted)

    def read_until(self, running: Served, is_done: Callable[[], bool]) -> None:
        """Read results until done; services that have ended fail that."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_done():
            running.supervisor.tend()
            self.results.read_on()
            assert time.monotonic() < deadline, f"{len(self.results.rows)} of {self.rows} answered"

    def answer(self) -> None:
        """Serve the query until some rows are answered."""
        with self.served() as running:
            for _ in range(3):
                self.send(BEFORE // 3)
                self.read_all(running)
            time.sleep(TRIMMED_S)  # topics are trimmed behind the results

    def fails(self, *sentences: str) -> None:
        """Services end by themselves, with these sentences, before they answer anything."""
        answered = len(self.results.rows)
        with pytest.raises(ServiceError) as ended, self.served() as running:
            self.read_all(running, answered + 1)
        for sentence in sentences:
            assert sentence in str(ended.value)
        assert len(self.results.rows) == answered

    def run(self, command: str, **servers: str) -> str:
        """A command of the page, with this test's files and servers in place of the page's."""
        assert command in COMMANDS
        places = {"query.yaml": str(self.folder / "query.yaml"), "kafka:9092": self.bootstrap, **servers}
        words = [places.get(word, word) for word in shlex.split(command)[1:]]
        environment = {**os.environ, "SPOJOIN_INPUT_TOPICS": orjson.dumps({"readings": self.topic}).decode()}
        done = subprocess.run(
            [sys.executable, "-m", "spojoin.cli.main", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check(self, generations: set[int], first: int = 0) -> None:
        assert self.results.rows == expected(first, self.rows)
        assert set(self.results.generations) == generations


RESTORE, RESULTS, MOVE = COMMANDS


@pytest.fixture
def stage(cluster: LocalCluster, tmp_path: Path, unique: str) -> Stage:
    return Stage(cluster, tmp_path, f"lost-{unique}")


def test_what_is_lost_of_these_while_services_run_is_said_again(stage: Stage) -> None:
    with stage.served() as running:
        stage.send(BEFORE)
        stage.read_all(running)
        for lost in ((Topic.MATCHES,), (Topic.PARTIALS, Topic.RUNS), HARMLESS):
            delete_topics(stage.bootstrap, [*stage.topics(*lost), f"{stage.topic}.dlq"])
            stage.send(MORE)
            stage.read_all(running)
    stage.check({1})


def test_what_is_lost_of_these_while_nothing_runs_costs_nothing(stage: Stage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, [*stage.topics(*HARMLESS), f"{stage.topic}.dlq"])
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1})


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [(Topic.FRAMES, "topic frames ends after 0"), (Topic.BATCHES, "which windows still reach")],
    ids=str,
)
def test_a_lost_log_or_window_ends_the_services_and_is_restored(stage: Stage, topic: Topic, sentence: str) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(topic))
    stage.send(MORE)
    stage.fails(sentence, "spojoin restore QUERY")
    assert "generation 2" in stage.run(RESTORE)
    with stage.served() as running:
        stage.read_all(running)
    stage.check({1, 2})


def test_a_log_lost_while_services_run_ends_them(stage: Stage) -> None:
    with stage.served() as running:
        stage.send(BEFORE)
        stage.read_all(running)
        delete_topics(stage.bootstrap, stage.topics(Topic.FRAMES))
        with pytest.raises(ServiceError, match="frames ends after"):
            stage.read_all(running, BEFORE + 1)
    stage.send(MORE)
    stage.run(RESTORE)
    with stage.served() as running:
        stage.read_all(running)
    stage.check({1, 2})


def test_all_but_inputs_and_results_may_be_lost_also_in_a_later_generation(stage: Stage) -> None:
    stage.answer()
    stage.run(RESTORE)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    every = AdminClient({"bootstrap.servers": stage.bootstrap}).list_topics(timeout=30).topics
    kept = {stage.topic, *stage.topics(Topic.RESULTS)}
    delete_topics(stage.bootstrap, [topic for topic in every if topic.startswith(stage.name) and topic not in kept])
    assert "generation 3" in stage.run(RESTORE)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1, 2, 3})
    assert len(stage.run(RESULTS).splitlines()) == stage.rows


def test_lost_results_go_on_where_redis_knows_their_end(stage: Stage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, stage.topics(Topic.RESULTS))
    stage.results = AllResults(stage.bootstrap, stage.name, is_whole=False)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running, MORE)
    stage.check({1}, BEFORE)


def test_lost_results_are_answered_again_as_far_as_the_log_reaches(stage: Stage) -> None:
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


def test_an_input_made_anew_is_taken_from_its_first_row_on(stage: Stage) -> None:
    stage.answer()
    delete_topics(stage.bootstrap, [stage.topic])
    stage.fails(f"was read to offset {BEFORE:,} and ends at 0")
    assert f"made anew, and taken from their first row on: {stage.topic}/0" in stage.run(RESTORE)
    with stage.served() as running:
        stage.send(MORE)
        stage.read_all(running)
    assert [row[:2] for row in stage.results.rows] == [row[:2] for row in expected(0, stage.rows)]


def test_services_that_run_hand_over_by_themselves(stage: Stage) -> None:
    with stage.served() as running:
        stage.send(BEFORE)
        stage.read_all(running)
        assert "handed over by themselves" in stage.run(RESTORE)
        stage.send(MORE)
        stage.read_all(running)
    stage.check({1, 2})


# -- another Kafka


def copied(old: str, new: str, topic: str, first: int) -> None:
    """A topic's messages from offset `first` on, as MirrorMaker copies them: in order, with other offsets."""
    admin = AdminClient({"bootstrap.servers": new})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result()
    consumer = Consumer({"bootstrap.servers": old, "group.id": "unused", "isolation.level": "read_committed"})
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    consumer.assign([TopicPartition(topic, 0, first)])
    producer, at = Producer({"bootstrap.servers": new}), first
    while at < end:
        for message in consumer.consume(500, 1.0):
            at = message.offset() + 1
            stamp = message.timestamp()[1]
            producer.produce(topic, message.value(), message.key(), 0, timestamp=stamp, headers=message.headers() or [])
    assert producer.flush(PATIENCE_S) == 0
    consumer.close()


def test_a_query_moves_to_another_kafka_whose_offsets_differ(stage: Stage) -> None:
    stage.answer()
    stage.send(MORE)  # not answered yet when it moves
    with LocalBroker(stage.cluster.children) as broker:
        moved = LocalCluster(stage.cluster.children, broker, stage.cluster.redis)
        copied(stage.bootstrap, broker.bootstrap, stage.topic, 700)
        said = stage.run(MOVE, **{"new-kafka:9092": broker.bootstrap})
        assert f"{stage.topic} offset {BEFORE - 700}" in said.replace("/0", "")
        answered, stage.results = stage.results, AllResults(broker.bootstrap, stage.name)
        stage.results.rows, stage.results.generations = answered.rows, answered.generations
        stage.cluster = moved
        with stage.served() as running:
            stage.send(MORE)
            stage.read_all(running)
    stage.check({1, 2})
