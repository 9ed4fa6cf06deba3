"""A world in memory for the loop, with a machine that a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import ManualClock, MemoryLog, MemoryStore
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.packing import edge_of
from spojoin.protocol.topology import Role, Topic
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.generations import Announcing, GenerationChooser
from spojoin.runtime.loop import Loop
from spojoin.runtime.loop_spec import LoopSpec, Surroundings
from spojoin.runtime.service import ServiceRun, create_topics
from spojoin.runtime.settings import load_settings
from spojoin.runtime.topics import Topics
from spojoin.runtime.wiring import Wiring
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Identity, Reporter
from spojoin.wire.codec import encode
from spojoin.wire.records import Announcement, Barrier, DirectionRanks, Partial, Record, Result, Rows
from spojoin.wire.results import result_to_message

TOPICS = Topics("q", ("in.trips",), predicates=2, workers_max=2)
#: the query whose topics these are
QUERY = parse_query("""
name: q
streams: {trips: {schema: {distance: double, air_time: double}}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
""")
FRAMES = LogPartition("q.frames", 0)
GENERATIONS = LogPartition("q.generations", 0)
RESULTS = LogPartition("q.results", 0)


def unread(_stream: int, _partition: int, _records: Sequence[LogRecord[bytes]]) -> Rows:
    """A router's parser for empty inputs."""
    raise AssertionError("nothing was to be read")


class FakeMachine(Machine):
    """Records its calls and returns what the test has put into `answers`."""

    def __init__(self, result_position: ResultPosition) -> None:
        self.start = result_position
        self.calls: list[tuple] = []
        self.unwanted: set[Topic] = set()
        self.answer: Callable[[Record], list[Action]] = lambda _: []
        self.trims: list[Trim] = []
        self.on_catching_up: list[Action] = []

    def wants(self, topic: Topic, partition: int) -> bool:
        return topic not in self.unwanted

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        self.calls.append(("record", topic, partition, offset, record))
        yield from self.answer(record)

    def on_caught_up(self) -> Iterator[Action]:
        self.calls.append(("caught up",))
        yield from self.on_catching_up

    def on_time(self, now_ms: int) -> Iterator[Action]:
        self.calls.append(("time", now_ms))
        yield from ()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        self.calls.append(("result_position", result_position))
        return self.trims

    def seen(self, kind: str) -> list[tuple]:
        return [call[1:] for call in self.calls if call[0] == kind]

    def records(self) -> list[Record]:
        return [call[-1] for call in self.calls if call[0] == "record"]


class Bench:
    """Log, store, clock and loops over them; `machines` are the machines so far."""

    def __init__(self, role: Role = Role.MUTABLE, transactional_id: str | None = None, **spec: object) -> None:
        self.clock = ManualClock(1_000.0)
        self.log: MemoryLog[bytes] = MemoryLog(self.clock)
        self.store = MemoryStore(self.clock)
        create_topics(self.log, TOPICS)
        self.machines: list[FakeMachine] = []
        self.prepare: Callable[[FakeMachine], None] = lambda _: None
        self.metrics = Metrics()
        self.health = Health(self.clock, stall_ms_max=60_000)
        self.shared = SharedState(self.store, "q", self.clock, self.metrics.store_failures)
        reporter = Reporter(Identity((role,), "x-0", "q", 9), self.shared, self.clock, self.metrics, self.health)
        self.world = Surroundings(self.log, self.shared, self.clock, self.metrics, self.health, reporter)
        edge = edge_of((role,))
        ids = {} if transactional_id is None else dict.fromkeys(edge.writes, transactional_id)
        self.spec = LoopSpec((role,), edge, TOPICS, self._machine, ids, **spec)

    def _machine(self, result_position: ResultPosition) -> FakeMachine:
        made = FakeMachine(result_position)
        self.prepare(made)
        self.machines.append(made)
        return made

    def loop(self) -> Loop:
        return Loop(self.spec, self.world)

    def charge(self, **settings: object) -> ServiceRun:
        """The service `x-0` of this role; the first generation of its query is announced."""
        self.append(GENERATIONS, Announcement(1, fingerprint(QUERY), QUERY.text, "window"))
        chosen = load_settings(query_file="q.yaml", workers=TOPICS.workers_max, **settings)
        roles = self.spec.roles
        announcing = Announcing(unread) if Role.ROUTER in roles else None
        office = GenerationChooser(self.log, QUERY, chosen, announcing=announcing, pulse=self.health.tick)
        wiring = Wiring("x-0", self._machine)
        return ServiceRun(roles, QUERY, chosen, lambda _: wiring, self.world, office)

    def append(self, target: LogPartition, *records: Record) -> None:
        for record in records:
            self.append_bytes(target, encode(record))

    def append_bytes(self, target: LogPartition, value: bytes, headers: dict[str, bytes] | None = None) -> None:
        self.log.writer().append(target, value, tuple((headers or {}).items()))

    def append_result(self, result: Result) -> None:
        message = result_to_message(result)
        self.append_bytes(RESULTS, message.value, message.headers)


def barrier(epoch: int) -> Barrier:
    return Barrier(epoch, "router")


def partial(frame_id: int) -> Partial:
    empty = np.zeros(0, np.uint16)
    return Partial(1, frame_id, 0, (DirectionRanks(empty, empty, empty),))


def result(frame_id: int, begin: int, end: int, *, is_last: bool = True, produced_ms: int = 1_000) -> Result:
    rows = pa.RecordBatch.from_pydict(
        {
            "seq": pa.array(range(100 * frame_id + begin, 100 * frame_id + end), pa.int64()),
            "matches": pa.array([2] * (end - begin), pa.int64()),
        }
    )
    runs = np.array([end - begin], np.uint32)
    return Result(frame_id, begin, end, is_last, rows, np.array([produced_ms], np.int64), runs)


def emits(topic: Topic, *records: Record) -> list[Action]:
    return [Emit(topic, 0, record) for record in records]
