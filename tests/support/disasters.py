"""A query whose topics are lost: its rows by number, its results by a nested loop, and a reader of all generations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from spojoin.protocol.topology import Topic, topic_name
from tests.support.readings import query_text
from tests.support.served import PATIENCE_S

WINDOW, SLIDE, DOMAIN = 400, 40, 25
#: Small frames and batches, so that some rows are in batches alone, and the log is trimmed.
SIZES = {"frame_tuples": "64", "batch_tuples": "100", "credits_frames": "16"}
#: Roles beside each other, so that each internal topic is written.
SPREAD = "router+sink mutable+pojoin"


def disaster_text(name: str) -> str:
    return query_text(name, WINDOW, SLIDE)


def draw(number: np.ndarray) -> np.ndarray:
    return number * 7919 % DOMAIN / 4


def cooling(number: np.ndarray) -> np.ndarray:
    return number * 104729 % 37


def expected(first: int, end: int) -> list[tuple[int, int, int, int]]:
    """(seq, key, as_left, as_right) of rows [first, end), by the definition."""
    found = []
    for seq in range(first, end):
        window = np.arange(max(0, -(-seq // SLIDE) * SLIDE - WINDOW), seq)
        x, y, own = draw(window), cooling(window), np.array([seq])
        as_left = (draw(own) < x) & (cooling(own) >= y)
        as_right = (x < draw(own)) & (y >= cooling(own))
        found.append((seq, seq, int(as_left.sum()), int(as_right.sum())))
    return found


def send_rows(bootstrap: str, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        one = np.array([number])
        row = {"draw": float(draw(one)[0]), "cooling": int(cooling(one)[0]), "id": number}
        producer.produce(topic, orjson.dumps(row), partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Those of them that exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    there = [name for name in names if name in admin.list_topics(timeout=30).topics]
    for done in admin.delete_topics(there, operation_timeout=30).values():
        done.result()


class AllResults:
    """The results of all generations, as a reader takes them: each continues where the last one ended.

    rows: those of all results so far; generations: the generation of each
    """

    def __init__(self, bootstrap: str, query: str, *, is_whole: bool = True) -> None:
        """is_whole: whether the first result in the topic is the query's very first one."""
        self._next = (1, 0, 0) if is_whole else None
        self.rows: list[tuple[int, ...]] = []
        self.generations: list[int] = []
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(topic_name(query, Topic.RESULTS), 0, 0)])

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
    """Until a log says it."""
    deadline = time.monotonic() + timeout_s
    while text not in (file.read_text() if file.exists() else ""):
        assert time.monotonic() < deadline, f"{file} never says {text!r}"
        time.sleep(0.2)
