"""A query and its changed version on the real broker: rows, results, the log's order, and nested loops' answers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.topology import HEARTBEAT, SHARED, Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.wire.codec import decode
from spojoin.wire.records import Frame
from tests.support.nested_loop import counts, pairs
from tests.support.readings import digest, joins, reading
from tests.support.served import PATIENCE_S, SIZES, committed_reader

PARTITIONS = 3
DOMAIN = 40
OLD_WINDOW, OLD_SLIDE = 500, 50
NEW_WINDOW, NEW_SLIDE = 400, 1
OLD = f"""
name: NAME
streams:
  readings:
    schema: {{draw: double, cooling: long}}
    time: at
    key: id
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '{OLD_SLIDE}' ON '{OLD_WINDOW}')
order: ORDER
output: count
"""
NEW = (
    OLD.replace("cooling: long", "cooling: double")
    .replace("l.cooling >= r.cooling", "l.cooling = r.cooling")
    .replace(f"INTERVAL '{OLD_SLIDE}' ON '{OLD_WINDOW}'", f"INTERVAL '{NEW_SLIDE}' ON '{NEW_WINDOW}'")
    .replace("output: count", "output: pairs")
)


# -- rows: a row's number determines everything in it


class Feed:
    """Sends rows in ascending event time to alternating partitions, until stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self.stop = threading.Event()
        self.rows = 0

    def run(self) -> None:
        while not self.stop.wait(0.03):
            for _ in range(12):
                self._send(self.rows)
                self.rows += 1
            self._producer.poll(0)
        end = {HEARTBEAT: str(self._at(self.rows) + 1).encode()}
        for partition in range(PARTITIONS):
            self._producer.produce(self._topic, b"", headers=end, partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def _at(self, number: int) -> int:
        return 1_700_000_000_000 + number // 5

    def _send(self, number: int) -> None:
        row = reading(number, DOMAIN) | {"at": self._at(number)}
        partition = number * 31 % 7 % PARTITIONS
        self._producer.produce(self._topic, orjson.dumps({**row, "id": number}), partition=partition)


# -- what came out


class Results:
    """All results; each continues where the last one ended."""

    def __init__(self, bootstrap: str, query: str) -> None:
        self._consumer = committed_reader(bootstrap, topic_name(query, Topic.RESULTS))
        self._next = (1, 0, 0)
        self.tables: dict[int, list[pa.Table]] = {1: [], 2: []}
        self.answered = {1: 0, 2: 0}

    def read_on(self) -> None:
        for message in self._consumer.consume(200, 0.1):
            if message.error() is None:
                self._take(dict(message.headers() or ()), message.value())

    def _take(self, headers: dict[str, bytes], value: bytes) -> None:
        generation, frame, begin, end = (
            int(headers[f"spojoin-{name}"]) for name in ("generation", "frame", "begin", "end")
        )
        if (generation, frame, begin) == (2, 0, 0) and self._next[0] == 1:
            assert self._next[2] == 0, "the old generation ended in the middle of a frame"
            self._next = (2, 0, 0)
        assert (generation, frame, begin) == self._next, "a result is missing, or came twice"
        self._next = (generation, frame + 1, 0) if headers["spojoin-last"] == b"1" else (generation, frame, end)
        self.answered[generation] += end - begin
        self.tables[generation].append(pa.ipc.open_stream(value).read_all())

    def rows(self, generation: int, *names: str) -> list[tuple]:
        tables = self.tables[generation]
        return [row for table in tables for row in zip(*(table[name].to_pylist() for name in names), strict=True)]

    def close(self) -> None:
        self._consumer.close()


@dataclass(slots=True)
class Order:
    """The new generation's rows in the order of its log."""

    log: KafkaLog
    source: LogPartition
    numbers: list[int] = field(default_factory=list)
    silent: list[bool] = field(default_factory=list)
    first: int = 0
    _accepted: LogFollower = field(default_factory=LogFollower)
    _reader: object = None

    def read_on(self) -> None:
        if self._reader is None:
            if not self.log.partitions(self.source.topic):
                return
            self._reader = self.log.reader()
            self._reader.open(self.source, 0)
        for record in self._reader.poll(500, 0.05):
            frame = decode(record.value)
            if self._accepted.accept(frame) and isinstance(frame, Frame):
                assert self.numbers or frame.frame_id == 0, "the log was trimmed before it was read"
                self.first = self.first if self.numbers else frame.first_seq
                self.numbers += frame.slices[0].keys.to_pylist()
                self.silent += frame.silent.astype(bool).tolist() or [False] * frame.count

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


# -- nested loops


def old_counts(numbers: list[int]) -> Iterator[tuple[int, ...]]:
    rows = np.array(numbers)
    for seq, *found in counts([*reading(rows, DOMAIN).values()], joins, OLD_WINDOW, OLD_SLIDE):
        yield seq, numbers[seq], *found


def new_pairs(order: Order) -> Iterator[tuple[int, ...]]:
    rows = np.array(order.numbers)
    answering = np.flatnonzero(~np.array(order.silent)).tolist()
    with_equal = partial(joins, compare=np.equal)
    for found in pairs([*reading(rows, DOMAIN).values()], with_equal, NEW_WINDOW, NEW_SLIDE, answering):
        yield *(order.first + n for n in found), *(order.numbers[n] for n in found[1:])


# -- the stage


@dataclass(frozen=True, slots=True)
class Stage:
    """One query's two versions on the cluster."""

    cluster: LocalCluster
    folder: Path
    name: str
    order: str

    @property
    def topic(self) -> str:
        return f"{self.name}.{input_topic('readings')}"

    def write(self, text: str, file: str) -> Path:
        path = self.folder / file
        path.write_text(text.replace("NAME", self.name).replace("ORDER", self.order))
        return path

    def services(self, path: Path, **extra: str) -> list[Service]:
        settings = {**SIZES, "input_topics": orjson.dumps({"readings": self.topic}).decode()}
        bootstrap, redis = self.cluster.broker.bootstrap, self.cluster.redis.url
        return services_of(Deployment(load_query(path), path, bootstrap, redis, 2, settings | extra))


def tended(supervisor: Supervisor) -> bool:
    supervisor.tend()
    return True


def wait(results: Results, rows: Order, is_done) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        results.read_on()
        rows.read_on()
        assert time.monotonic() < deadline, (
            f"{results.answered} answered, {sum(rows.silent)} of {len(rows.silent)} silent"
        )


def answered(results: Results, rows: Order) -> int:
    if results.answered[2] != len(rows.numbers):
        return -1
    return results.answered[1] + len(rows.silent) - sum(rows.silent)


def topics_of(log: KafkaLog, name: str, generation: int) -> list[str]:
    own = [topic_name(name, topic, generation) for topic in Topic if topic not in SHARED]
    return [topic for topic in own if log.partitions(topic)]


def check(results: Results, rows: Order, total: int, order: str) -> None:
    counted = results.rows(1, "seq", "key", "as_left", "as_right")
    earlier = [number for _, number, *_ in counted]
    assert digest(counted) == digest(old_counts(earlier))
    by_new = [number for number, silent in zip(rows.numbers, rows.silent, strict=True) if not silent]
    again = [number for number, silent in zip(rows.numbers, rows.silent, strict=True) if silent]
    assert sorted(earlier + by_new) == list(range(total))
    assert set(again) <= set(earlier)
    assert len(again) >= NEW_WINDOW
    assert len(set(again)) == len(again)
    pairs = results.rows(2, "probe_seq", "left_seq", "right_seq", "left_key", "right_key")
    assert digest(pairs) == digest(new_pairs(rows))
    assert pairs
    assert rows.first + len(again) == len(earlier)
    if order == "event_time":
        times = np.array(rows.numbers) // 5
        assert (times[:-1] <= times[1:]).all()
    else:
        assert sorted(rows.silent, reverse=True) == rows.silent


def refused_up(cluster: LocalCluster, query_file: Path) -> str:
    """The one line that `up` prints for a changed query without permission to replace the served one."""
    servers = ["--bootstrap", cluster.broker.bootstrap, "--redis", cluster.redis.url]
    command = [sys.executable, "-m", "spojoin.cli.main", "up", str(query_file), *servers]
    up = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert up.returncode == 2, up.stderr
    return " ".join(up.stderr.split())
