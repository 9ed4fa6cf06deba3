"""Made-up services, results and dead letters for the page, over ports in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.page.state import Known, state_of
from spojoin.page.subject import Subject
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog, MemoryStore
from spojoin.ports.shared_state import STATUS_TTL_S, key
from spojoin.protocol.services import without_workers
from spojoin.protocol.topology import TOPOLOGY, Role, Topic
from spojoin.query.load import parse_query
from spojoin.telemetry.expected_services import ServiceReport
from spojoin.wire.records import Result
from spojoin.wire.results import result_messages_json, result_to_message

SELF = """
name: racks
streams:
  readings: {schema: {draw: double, cooling: double}, key: rack}
sql: SELECT * FROM readings AS l JOIN readings AS r ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '10' ON '1000')
"""
CROSS = """
name: quotes
streams:
  orders: {schema: {price: double}}
  quotes: {schema: {price: double}}
sql: SELECT * FROM orders JOIN quotes ON orders.price < quotes.price WINDOW AS (SLIDE INTERVAL '10' ON '1000')
"""
TIMED = """
name: timed
streams:
  s: {schema: {a: int, at: timestamp}, time: at}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1 s' ON '10 s')
order: event_time
"""
RESULTS = LogPartition("racks.results", 0)
LETTERS = LogPartition("in.readings.dlq", 0)
CONTROL = LogPartition("racks.control", 0)


def subject(text=SELF, workers=2) -> Subject:
    return Subject.of(parse_query(text), workers, {})


class World:
    """A store in which all services of a query report, second by second, and a log with their topics."""

    def __init__(self, about: Subject | None = None) -> None:
        self.subject = about or subject()
        self.name = self.subject.query.name
        self.clock = ManualClock(5_000.0)
        self.store = MemoryStore(self.clock)
        self.log: MemoryLog[bytes] = MemoryLog(self.clock)
        self.log.create_topics({RESULTS.topic: 1, LETTERS.topic: 1})
        self.gone: set[str] = set()
        self.fields: dict[str, dict[str, object]] = {}
        self.skew_ms = 0
        self.seconds = 0

    def pass_second(self, tuples=100, records=7) -> None:
        """Let every service that isn't gone make progress and report."""
        self.clock.sleep(1)
        self.seconds += 1
        for edge in TOPOLOGY:
            for name in self.subject.expected(edge.role):
                if name not in self.gone:
                    self._report(edge, name, tuples, records)
                    self._leave_word(name)

    def put(self, *parts: str, **fields: object) -> None:
        self.store.put({key(self.name, *parts): fields})

    def entries(self):
        return self.store.scan(key(self.name, ""))

    def _leave_word(self, name) -> None:
        word = ServiceReport(self.clock.wall_ms(), without_workers(self.subject.query), self.subject.workers)
        self.store.put({key(self.name, "expected", name): word.fields()})

    def _report(self, edge, name, tuples, records) -> None:
        status = {
            "role": edge.role.value,
            "state": "ready",
            "wall_ms": self.clock.wall_ms() + self.skew_ms,
            "started_ms": self.skew_ms,
            "tuples": tuples * self.seconds if edge.role in (Role.ROUTER, Role.SINK) else 0,
            "matches": 3 * tuples * self.seconds if edge.role is Role.SINK else 0,
            **self.fields.get(name, {}),
        }
        reads = [topic for topic in edge.reads if topic not in (Topic.RESULTS, Topic.GENERATIONS)]
        places = {f"{kafka}/0": records * self.seconds for topic in reads for kafka in self.subject.names(topic)}
        self.store.put({key(self.name, "status", name): status}, STATUS_TTL_S)
        self.store.put({key(self.name, "progress", name): places})


def shown(known: Known, censor=lambda text: text):
    return state_of(known, censor)


def result(first: int, count: int, keys=None) -> Result:
    numbers = np.arange(first, first + count)
    rows = pa.record_batch(
        {
            "seq": pa.array(numbers),
            "stream": pa.array(["readings"] * count).dictionary_encode(),
            "key": pa.array(keys or [f"rack-{n}" for n in numbers]),
            "matches": pa.array(2 * numbers),
        }
    )
    return Result(first, 0, count, True, rows, np.array([1]), np.array([count], np.uint32))


def append_results(log, first: int, count: int, *, is_json=False, keys=None) -> None:
    made = result(first, count, keys)
    writer = log.writer()
    for message in result_messages_json(made) if is_json else [result_to_message(made)]:
        writer.append(RESULTS, message.value, tuple(message.headers.items()))


def append_letter(log, value: bytes, reason="type", detail="draw is 'much', expected a double") -> None:
    headers = {"reason": reason, "detail": detail, "source-topic": "in.readings", "source-partition": "3"}
    headers |= {"source-offset": "41", "source-row": "0"}
    log.writer().append(LETTERS, value, tuple((f"spojoin-{name}", text.encode()) for name, text in headers.items()))
