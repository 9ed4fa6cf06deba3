"""Logs that older versions of the program wrote.

`log_before_generations.json.gz` holds a query's topics as the last version before generations left them: every role of
it ran over a log in memory, frames of 8 and batches of 16 tuples, two workers, rows 0 to 199 in turn in two partitions
of `in.trips`; then the sink ended, rows 200 to 259 came, and soon after the logical AND ended, too. So the log is
trimmed, frames wait for their results, and no record has a fingerprint or a generation. Per topic and partition there
are the retained bounds and each record's offset, time in ms, value and headers, the bytes in base64.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from spojoin.errors import ConfigurationError, WireError
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import ManualClock, MemoryLog, _Partition
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.topology import Role
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.__main__ import wire_of
from spojoin.runtime.generations import Announcing, GenerationChooser, Serving
from spojoin.runtime.loop import Loop
from spojoin.runtime.loop_spec import Surroundings
from spojoin.runtime.service import ServiceRun, create_topics
from spojoin.runtime.settings import load_settings
from spojoin.runtime.topics import Topics
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Identity, Reporter
from spojoin.wire.codec import decode
from spojoin.wire.records import Barrier, Frame
from spojoin.wire.results import ResultSequence, progress, result_from_message
from tests.support.nested_loop import counts

SAVED = Path(__file__).parent / "log_before_generations.json.gz"
OLD_ROWS, ROWS = 260, 400
QUERY = parse_query("""
name: q
streams: {trips: {schema: {distance: double, air_time: long}, key: id}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '4' ON '40')
""")
#: each role with its number; the sink trims records that the others must have begun to read, so it comes last
SERVICES = [
    (Role.ROUTER, 0),
    (Role.MUTABLE, 0),
    (Role.MUTABLE, 1),
    (Role.PERMUTATION, 0),
    (Role.LOGICAL_AND, 0),
    (Role.POJOIN, 0),
    (Role.POJOIN, 1),
    (Role.SINK, 0),
]


def saved_log(clock: ManualClock) -> MemoryLog[bytes]:
    log = MemoryLog[bytes](clock)
    for topic, partitions in json.loads(gzip.decompress(SAVED.read_bytes())).items():
        log._topics[topic] = [_partition(LogPartition(topic, number), held) for number, held in enumerate(partitions)]
    return log


def _partition(source: LogPartition, held: dict) -> _Partition[bytes]:
    records = [
        LogRecord(source, offset, time_ms, _raw(value), tuple((name, _raw(text)) for name, text in headers))
        for offset, time_ms, value, headers in held["records"]
    ]
    return _Partition(records, held["earliest"], held["end"])


def _raw(text: str) -> bytes:
    return base64.b64decode(text)


def row(number: int) -> dict[str, float]:
    return {"id": number, "distance": number * 7919 % 13 / 2, "air_time": number * 104729 % 11}


def charge(role: Role, number: int, log: MemoryLog[bytes], clock: ManualClock, query: Query = QUERY) -> ServiceRun:
    settings = load_settings(
        query_file="q.yaml", workers=2, frame_tuples=8, batch_tuples=16, worker=number, **{MUTABLE_NUMBER: number}
    )
    wire = wire_of(role)
    metrics, health = Metrics(), Health(clock, 60_000)
    shared = SharedState(None, "q", clock, metrics.store_failures)
    name = f"{role.value}-{number}"
    world = Surroundings(
        log, shared, clock, metrics, health, Reporter(Identity((role,), name, "q", 9), shared, clock, metrics, health)
    )
    parse = wire(Serving(query), settings).parse
    office = GenerationChooser(log, query, settings, announcing=None if parse is None else Announcing(parse))
    return ServiceRun((role,), query, settings, lambda serving: wire(serving, settings), world, office)


#: the setting that numbers mutable joiners
MUTABLE_NUMBER = "joiner"


def started(role: Role, number: int, log: MemoryLog[bytes], clock: ManualClock) -> Loop:
    service = charge(role, number, log, clock)
    serving = service.office.serving()
    assert serving is not None
    return Loop(service.spec(serving), service.world)


def results(log: MemoryLog[bytes]) -> Iterator[tuple]:
    chain = ResultSequence()
    for record in log.records(LogPartition("q.results", 0)):
        headers = dict(record.headers)
        found = result_from_message(headers, record.value)
        if chain.accepts(found.begin, progress(headers)):
            yield from zip(
                *(found.rows.column(name).to_pylist() for name in ("seq", "key", "as_left", "as_right")), strict=True
            )


def nested_loop(order: list[int]) -> Iterator[tuple]:
    rows = [row(number) for number in order]
    columns = [np.array([each[name] for each in rows]) for name in ("distance", "air_time")]
    for seq, *found in counts(columns, lambda left, right: (left[0] > right[0]) & (left[1] < right[1]), 40, 4):
        yield seq, order[seq], *found


def test_the_saved_log_is_older_than_generations():
    log = saved_log(ManualClock())
    assert "q.generations" not in log._topics
    records = [decode(record.value) for record in log.records(LogPartition("q.frames", 0))]
    assert all(isinstance(record, Frame | Barrier) and record.fingerprint == 0 for record in records)
    assert log.bounds(LogPartition("q.frames", 0)).earliest > 0
    assert not any("spojoin-generation" in dict(r.headers) for r in log.records(LogPartition("q.results", 0)))
    assert 0 < len(list(results(log))) < OLD_ROWS


def test_this_version_continues_the_saved_log():
    clock = ManualClock(100_000.0)
    log = saved_log(clock)
    create_topics(log, Topics.for_query(QUERY, 2, {}))
    loops = [started(role, number, log, clock) for role, number in SERVICES]
    writer = log.writer()
    for number in range(OLD_ROWS, ROWS):
        writer.append(LogPartition("in.trips", number % 2), orjson.dumps(row(number)))
    for _ in range(4_000):
        for loop in loops:
            loop.step(0)
        clock.sleep(0.005)
        found = list(results(log))
        if len(found) == ROWS:
            break
    order = [number for _, number, *_ in found]
    assert sorted(order) == list(range(ROWS))
    assert found == list(nested_loop(order))
    newest = decode(log.records(LogPartition("q.frames", 0))[-1].value)
    assert newest.fingerprint == fingerprint(QUERY)
    assert dict(log.records(LogPartition("q.results", 0))[-1].headers)["spojoin-generation"] == b"1"


def of_next_version(value: bytes) -> bytes:
    """The record with its format version raised: this version can't know the meaning of the rest."""
    return value[:8] + (2).to_bytes(4, "little") + value[12:]


def test_a_log_of_an_unknown_format_ends_the_start_with_a_remedy():
    clock = ManualClock(100_000.0)
    log = saved_log(clock)
    create_topics(log, Topics.for_query(QUERY, 2, {}))
    held = log._topics["q.frames"][0]
    held.records[:] = [record._replace(value=of_next_version(record.value)) for record in held.records]
    started(Role.ROUTER, 0, log, clock).close()
    for role in (Role.ROUTER, Role.SINK, Role.MUTABLE):
        loop = started(role, 0, log, clock)
        with pytest.raises(WireError, match=r"q.frames\[0\] offset \d+: .*version 2, expected 1: run the version"):
            loop.step(0)


def test_generations_of_an_unknown_format_end_the_start_with_a_remedy():
    clock = ManualClock(100_000.0)
    log = saved_log(clock)
    create_topics(log, Topics.for_query(QUERY, 2, {}))
    charge(Role.ROUTER, 0, log, clock).office.serving()
    held = log._topics["q.generations"][0]
    held.records[:] = [record._replace(value=of_next_version(record.value)) for record in held.records]
    for role in (Role.ROUTER, Role.SINK):
        with pytest.raises(
            ConfigurationError, match=r"q.generations offset 0: .*version 2, expected 1: run the version"
        ):
            charge(role, 0, log, clock).office.serving()
