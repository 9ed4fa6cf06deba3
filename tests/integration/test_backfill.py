"""A changed query takes over on the real broker while rows flow; Spark answers it over the history before the takeover.

Both results together must equal a nested loop over all rows: no row is missing or answered twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import HEARTBEAT, Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.runtime.generations import GenerationsTopic
from tests.support.long import long_only
from tests.support.nested_loop import pairs
from tests.support.readings import joins, reading
from tests.support.served import PATIENCE_S, SINK_ALONE, SIZES, committed_reader

pytestmark = [pytest.mark.integration, pytest.mark.spark]

WINDOW, DOMAIN = 300, 40
BEGIN_MS = 1_700_000_000_000
OLD = """
name: NAME
streams:
  readings:
    schema: {draw: double, cooling: long}
    time: at
    key: id
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '10' ON '100')
order: ORDER
output: count
"""
NEW = (
    OLD.replace("l.cooling >= r.cooling", "l.cooling = r.cooling")
    .replace("INTERVAL '10' ON '100'", f"INTERVAL '1' ON '{WINDOW}'")
    .replace("output: count", "output: pairs")
)


# -- rows: a row's number determines everything in it


class Feed:
    """Sends rows in ascending event time to the partitions, until stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic, self._partitions = topic, partitions
        self.stop = threading.Event()
        self.rows = 0

    def run(self) -> None:
        while not self.stop.wait(0.03):
            for _ in range(10):
                row = reading(self.rows, DOMAIN) | {"at": BEGIN_MS + self.rows}
                partition = self.rows * 31 % 7 % self._partitions
                self._producer.produce(self._topic, orjson.dumps({**row, "id": self.rows}), partition=partition)
                self.rows += 1
            self._producer.poll(0)
        for partition in range(self._partitions):
            end = {HEARTBEAT: str(BEGIN_MS + self.rows).encode()}
            self._producer.produce(self._topic, b"", headers=end, partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0


def history(rows: int, folder: Path) -> Path:
    """All rows, in three Parquet files."""
    number = np.arange(rows)
    at = pa.array((number + BEGIN_MS) * 1_000, pa.timestamp("us", tz="UTC"))
    table = pa.table({"id": number, **reading(number, DOMAIN), "at": at})
    folder.mkdir()
    for part in range(3):
        begin = part * rows // 3
        pq.write_table(table.slice(begin, (part + 1) * rows // 3 - begin), folder / f"{part}.parquet")
    return folder


def nested_loop(rows: int) -> Iterator[tuple[int, ...]]:
    """The pairs of the new query by definition, with the rows' own sequence numbers."""
    columns = [*reading(np.arange(rows), DOMAIN).values()]
    for found in pairs(columns, partial(joins, compare=np.equal), WINDOW):
        yield *found, *found[1:]


# -- the stream's results


class Results:
    """The results of the new generation, each once."""

    def __init__(self, bootstrap: str, query: str) -> None:
        self._consumer = committed_reader(bootstrap, topic_name(query, Topic.RESULTS))
        self.answered = 0
        self.tables: list[pa.Table] = []

    def read_on(self) -> None:
        for message in self._consumer.consume(200, 0.1):
            headers = dict(message.headers() or ())
            if headers["spojoin-generation"] == b"2":
                self.tables.append(pa.ipc.open_stream(message.value()).read_all())
            else:
                self.answered += int(headers["spojoin-end"]) - int(headers["spojoin-begin"])

    @property
    def rows(self) -> list[tuple[int, ...]]:
        return [row for table in self.tables for row in rows_of(table)]

    def close(self) -> None:
        self._consumer.close()


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def until(results: Results, supervisors: list[Supervisor], is_done) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        for each in supervisors:
            each.tend()
        results.read_on()
        assert time.monotonic() < deadline, f"{results.answered} answered before, {len(results.rows)} rows after"


def services(cluster: LocalCluster, path: Path, topic: str, packing: str, **extra: str) -> list[Service]:
    settings = {**SIZES, "input_topics": orjson.dumps({"readings": topic}).decode(), **extra}
    query, servers = load_query(path), (cluster.broker.bootstrap, cluster.redis.url)
    return services_of(Deployment(query, path, *servers, workers=2, extra=settings, packing=packing))


def backfill(query: Path, topic: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spojoin.cli.main", "backfill", str(query), *arguments]
    environment = {**os.environ, "SPOJOIN_INPUT_TOPICS": orjson.dumps({"readings": topic}).decode()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("order", "partitions", "packing"), [long_only("arrival", 1, SINK_ALONE), ("event_time", 2, "together")]
)
def test_a_backfill_and_the_stream_that_took_over_have_no_gap_and_no_double(
    cluster: LocalCluster, tmp_path: Path, order: str, partitions: int, packing: str
) -> None:
    name, bootstrap = f"backfilled-{order}", cluster.broker.bootstrap
    topic = f"{name}.{input_topic('readings')}"
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for path, text in ((old, OLD), (new, NEW)):
        path.write_text(text.replace("NAME", name).replace("ORDER", order))
    log = KafkaLog(KafkaConfig(bootstrap))
    log.create_topics({topic: partitions, f"{topic}.dlq": 1})
    feed, results = Feed(bootstrap, topic, partitions), Results(bootstrap, name)
    with ExitStack() as stack:
        stack.callback(log.close)
        stack.callback(results.close)
        before = stack.enter_context(Supervisor(cluster.children, tmp_path / "old", restarts_max=0))
        after = stack.enter_context(Supervisor(cluster.children, tmp_path / "new", restarts_max=50))
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(feed.stop.set)
        before.start(services(cluster, old, topic, packing))
        before.wait_ready()
        feeding = pool.submit(feed.run)
        until(results, [before], lambda: results.answered > 2 * WINDOW)
        after.start(services(cluster, new, topic, packing, replace="true"))
        until(results, [after], lambda: GenerationsTopic(log, name).read().current_number == 2 and results.tables)
        seen = feed.rows
        until(results, [after], lambda: feed.rows > seen + 2 * WINDOW)
        feed.stop.set()
        feeding.result()
        expected = list(nested_loop(feed.rows))
        last = sum(row[0] == expected[-1][0] for row in expected)
        until(results, [after], lambda: sum(row[0] == expected[-1][0] for row in results.rows[-last:]) == last)
    check(results, expected, history(feed.rows, tmp_path / "history"), (new, topic, bootstrap))


def check(results: Results, expected: list[tuple[int, ...]], folder: Path, asked: tuple[Path, str, str]) -> None:
    query, topic, bootstrap = asked
    output = folder.parent / "results"
    ordered = ["--order-by", "id"] if "order: arrival" in query.read_text() else []
    where = ["--from", str(folder), "--until", "began", "--bootstrap", bootstrap, "--shares", "3", "-o", str(output)]
    done = backfill(query, topic, *where, *ordered)
    assert done.returncode == 0, done.stderr
    assert "generation 2 answers from" in done.stderr
    parts = [pq.read_table(path) for path in sorted(output.glob("part-*"))]
    assert {part.schema.remove_metadata() for part in parts} == {results.tables[0].schema.remove_metadata()}
    earlier = [row for part in parts for row in rows_of(part)]
    assert earlier
    assert results.rows
    assert earlier + results.rows == expected
