"""Inputs in memory for a machine that records what it receives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.protocol.machine import START, Action
from spojoin.runtime.feeds import InputFeed
from spojoin.telemetry.metrics import Metrics
from spojoin.wire.records import Rows, SourceState
from tests.support.runtime_world import FakeMachine


class FakeRouter(FakeMachine):
    def __init__(self) -> None:
        super().__init__(START)
        self.active = False
        self.positions: SourceState = {}
        self.declared: list[list[tuple[int, int]]] = []
        self.full: set[tuple[int, int]] = set()
        self.rows: list[tuple[int, int, list[int]]] = []
        self.ends: list[tuple[int, int]] = []
        self.doubted: set[tuple[int, int]] = set()

    def sources(self) -> SourceState:
        return self.positions

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        self.declared.append(inputs)

    def wants_rows(self, stream: int, partition: int) -> bool:
        return (stream, partition) not in self.full

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        self.rows.append((stream, partition, rows.offsets.tolist()))
        yield from ()

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        if ended:
            self.ends.append((stream, partition))

    def reads_input(self, stream: int, partition: int) -> bool:
        return True

    def on_position(self, stream: int, partition: int, offset: int) -> Iterator[Action]:
        yield from ()

    def doubts_end(self, stream: int, partition: int) -> bool:
        return (stream, partition) in self.doubted


def parse(stream, partition, records) -> Rows:
    offsets = np.array([record.offset for record in records], np.int64)
    zeros = np.zeros(len(offsets), np.int64)
    return Rows(offsets, zeros, int(offsets[-1]) + 1, (zeros,), None, pa.array(zeros), zeros)


class Feeding:
    def __init__(self, **partitions: int) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        self.log.create_topics(partitions)
        self.machine = FakeRouter()
        self.feed = InputFeed(self.log, self.machine, ["a", "b"], parse, self.clock, Metrics().read)

    def put(self, topic: str, partition: int, count: int = 1) -> None:
        for _ in range(count):
            self.log.writer().append(LogPartition(topic, partition), b"x")

    def turn(self) -> None:
        self.feed.refresh()
        self.feed.ahead.fill(0)
        list(self.feed.give_rows())
