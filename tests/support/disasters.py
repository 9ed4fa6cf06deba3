"""A query that loses topics: its rows, its results by a nested loop, its services, and all generations' results."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import ServiceError
from spojoin.protocol.topology import Topic, input_topic, topic_name
from tests.support.nested_loop import counts
from tests.support.readings import joins, query_text, reading
from tests.support.served import PATIENCE_S, Served, committed_reader, served

WINDOW, SLIDE, DOMAIN = 400, 40, 25
#: Small frames and batches, so that some rows are only in batches, and the log is trimmed.
SIZES = {"frame_tuples": "64", "batch_tuples": "100", "credits_frames": "16"}
#: A packing in which each internal topic is written.
SPREAD = "router+sink mutable+pojoin"

PAGE = (Path(__file__).parents[2] / "helm/spojoin/RUNBOOK.md").read_text()
#: The page's commands, in its order.
RESTORE, RESULTS, MOVE = COMMANDS = [match.strip() for match in re.findall(r"(?m)^ {4,}(spojoin .*)$", PAGE)]
#: Internal topics whose needed content services write again.
HARMLESS = (Topic.MATCHES, Topic.PARTIALS, Topic.RUNS, Topic.PLAN, Topic.CONTROL, Topic.GENERATIONS)
#: Rows answered before a topic is lost: more than a window, so that some are only in batches.
BEFORE, MORE = 1_500, 300
#: After this time without new results, topics are completely trimmed.
TRIMMED_S = 3.0


def disaster_text(name: str) -> str:
    return query_text(name, WINDOW, SLIDE)


def expected(first: int, end: int) -> list[tuple[int, int, int, int]]:
    """(seq, key, as_left, as_right) of rows [first, end), by the definition."""
    columns = [*reading(np.arange(end), DOMAIN).values()]
    found = counts(columns, joins, WINDOW, SLIDE, range(first, end))
    return [(seq, seq, *each) for seq, *each in found]


def send_rows(bootstrap: str, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, orjson.dumps({**reading(number, DOMAIN), "id": number}), partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Delete the topics that exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = [name for name in names if name in admin.list_topics(timeout=30).topics]
    for done in admin.delete_topics(there, operation_timeout=30).values():
        done.result()


class AllResults:
    """The results of all generations, as a reader takes them: each result continues where the last one ended.

    rows: of all results so far; generations: the generation of each row
    """

    def __init__(self, bootstrap: str, query: str, *, is_whole: bool = True) -> None:
        """is_whole: whether the first result in the topic is the query's very first one."""
        self._next = (1, 0, 0) if is_whole else None
        self.rows: list[tuple[int, ...]] = []
        self.generations: list[int] = []
        self._consumer = committed_reader(bootstrap, topic_name(query, Topic.RESULTS))

    def read_on(self, timeout_s: float = 0.2) -> None:
        for message in self._consumer.consume(100, timeout_s):
            if message.error() is None:
                self._take(dict(message.headers() or ()), message.value())

    def _take(self, headers: dict[str, bytes], value: bytes) -> None:
        generation, frame, begin, end = (
            int(headers[f"spojoin-{name}"]) for name in ("generation", "frame", "begin", "end")
        )
        if self._next is None:
            self._next = (generation, frame, begin)
        if generation > self._next[0]:
            self._next = (generation, 0, 0)
        if (generation, frame, begin) != self._next:
            assert (generation, frame, begin) < self._next, "a result is missing"
            return
        self._next = (generation, frame + 1, 0) if headers["spojoin-last"] == b"1" else (generation, frame, end)
        table = pa.ipc.open_stream(value).read_all()
        rows = list(zip(*(table[name].to_pylist() for name in ("seq", "key", "as_left", "as_right")), strict=True))
        self.rows += rows
        self.generations += [generation] * len(rows)


def wait_for(file: Path, text: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until a log contains the text."""
    deadline = time.monotonic() + timeout_s
    while text not in (file.read_text() if file.exists() else ""):
        assert time.monotonic() < deadline, f"{file} never says {text!r}"
        time.sleep(0.2)


@dataclass(slots=True)
class DisasterStage:
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
        """Read results until all rows, or `rows` of them, are answered."""
        wanted = self.rows if rows is None else rows

        self.read_until(running, lambda: len(self.results.rows) >= wanted)

    def read_until(self, running: Served, is_done: Callable[[], bool]) -> None:
        """Read results until done; fails if a service has ended."""
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
            time.sleep(TRIMMED_S)  # topics are trimmed after results are out

    def fails(self, *sentences: str) -> None:
        """Check that services end by themselves, with these sentences, before they answer."""
        answered = len(self.results.rows)
        with pytest.raises(ServiceError) as ended, self.served() as running:
            self.read_all(running, answered + 1)
        for sentence in sentences:
            assert sentence in str(ended.value)
        assert len(self.results.rows) == answered

    def run(self, command: str, **servers: str) -> str:
        """Run a command of the page with this test's files and servers."""
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
