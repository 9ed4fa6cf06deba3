"""The contract of every log, tested on memory and on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from spojoin.errors import Fenced
from spojoin.ports.interfaces import AmbiguousAppend, Bounds, Log, LogPartition, LogReader, LogRecord, LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.topic_config import DEFAULTS, TopicKind

TIMEOUT_S = 30.0


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.integration)])
def log(request: pytest.FixtureRequest) -> Iterator[Log[bytes]]:
    made = MemoryLog() if request.param == "memory" else KafkaLog(KafkaConfig(request.getfixturevalue("bootstrap")))
    yield made
    made.close()


@pytest.fixture
def source(log: Log[bytes], unique: str) -> LogPartition:
    log.create_topics({unique: 1})
    return LogPartition(unique, 0)


@pytest.fixture
def reader(log: Log[bytes]) -> Iterator[LogReader[bytes]]:
    made = log.reader()
    yield made
    made.close()


def append(log: Log[bytes], source: LogPartition, *values: bytes, transactional_id: str | None = None) -> None:
    writer = log.writer(transactional_id)
    for value in values:
        writer.append(source, value)
    writer.flush(TIMEOUT_S)
    writer.close()


def read_to(reader: LogReader[bytes], source: LogPartition, end: int) -> list[LogRecord[bytes]]:
    """All records up to the offset `end`."""
    found: list[LogRecord[bytes]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while reader.position(source) < end:
        assert time.monotonic() < deadline, f"stuck at {reader.position(source)} of {end}"
        found += reader.poll(100, 0.1)
    return found


def read_all(log: Log[bytes], reader: LogReader[bytes], source: LogPartition) -> list[bytes]:
    bounds = log.bounds(source)
    reader.open(source, bounds.earliest)
    return [record.value for record in read_to(reader, source, bounds.end)]


def wait_for(condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_records_come_back_in_order_and_complete(log, reader, source):
    writer = log.writer()
    writer.append(source, b"a", (("k", b"v"), ("k2", b"")), timestamp_ms=1234)
    writer.append(source, b"", (("k", b"w"),))
    writer.flush(TIMEOUT_S)
    assert log.bounds(source) == Bounds(0, 2)
    reader.open(source, 0)
    first, second = read_to(reader, source, 2)
    assert first == LogRecord(source, 0, 1234, b"a", (("k", b"v"), ("k2", b"")))
    assert (second.input, second.offset, second.value, second.headers) == (source, 1, b"", (("k", b"w"),))


def test_a_records_key_comes_back(log, reader, source):
    writer = log.writer()
    writer.append(source, b"a", key=b"k")
    writer.append(source, b"", key=b"k")
    writer.append(source, b"b")
    writer.flush(TIMEOUT_S)
    reader.open(source, 0)
    assert [(each.key, each.value) for each in read_to(reader, source, 3)] == [(b"k", b"a"), (b"k", b""), (None, b"b")]


def test_reading_starts_at_the_offset_asked_for_and_moves(log, reader, source):
    append(log, source, *(b"%d" % i for i in range(10)))
    reader.open(source, 7)
    assert [r.value for r in read_to(reader, source, 10)] == [b"7", b"8", b"9"]
    reader.open(source, 4)
    assert reader.position(source) == 4
    assert [r.value for r in read_to(reader, source, 10)] == [b"4", b"5", b"6", b"7", b"8", b"9"]


def test_poll_returns_no_more_than_asked(log, reader, source):
    append(log, source, *(b"%d" % i for i in range(10)))
    reader.open(source, 0)
    found = []
    while len(found) < 10:
        got = reader.poll(3, 5.0)
        assert len(got) <= 3
        found += [record.value for record in got]
    assert found == [b"%d" % i for i in range(10)]


def test_poll_does_not_wait_for_more_than_the_first_record(log, reader, source):
    reader.open(source, 0)
    append(log, source, b"one")
    began = time.monotonic()
    found = []
    while not found:
        found = reader.poll(1000, 60.0)
    assert time.monotonic() - began < 50


def test_a_paused_input_is_silent_and_resumes_where_it_was(log, reader, unique):
    log.create_topics({unique: 2})
    first, second = LogPartition(unique, 0), LogPartition(unique, 1)
    append(log, first, b"a")
    reader.open(first, 0)
    reader.open(second, 0)
    assert [r.value for r in read_to(reader, first, 1)] == [b"a"]
    reader.pause(first)
    append(log, first, b"b")
    append(log, second, b"c")
    assert [r.value for r in read_to(reader, second, 1)] == [b"c"]
    assert not reader.poll(10, 0.3)
    reader.resume(first)
    assert [r.value for r in read_to(reader, first, 2)] == [b"b"]


def test_a_dropped_input_is_silent(log, reader, source):
    append(log, source, b"a")
    reader.open(source, 0)
    read_to(reader, source, 1)
    reader.drop(source)
    append(log, source, b"b")
    assert not reader.poll(10, 0.3)
    reader.open(source, 1)
    assert [r.value for r in read_to(reader, source, 2)] == [b"b"]


def test_the_end_is_known_when_it_is_reached(log, reader, source):
    append(log, source, b"a", b"b")
    reader.open(source, 0)
    read_to(reader, source, 2)
    wait_for(lambda: not reader.poll(10, 0.1) and reader.at_end(source))
    assert reader.lag(source) == 0
    append(log, source, b"c")
    wait_for(lambda: reader.poll(10, 0.1))
    assert reader.position(source) == 3


def test_topics_are_made_once_and_grow(log, unique):
    assert log.partitions(unique) == 0
    log.create_topics({unique: 2})
    log.create_topics({unique: 1})
    assert log.partitions(unique) == 2
    log.create_topics({unique: 3}, {**DEFAULTS[TopicKind.RESULTS], "retention.bytes": str(1 << 20)})
    wait_for(lambda: log.partitions(unique) == 3)
    assert log.bounds(LogPartition(unique, 2)) == Bounds(0, 0)


def test_a_topic_keeps_its_id(log, source):
    assert log.topic_id(source.topic)
    assert log.topic_id(source.topic) == log.topic_id(source.topic)


def test_what_does_not_exist_is_reported(log, unique):
    with pytest.raises(LogUnavailable):
        log.bounds(LogPartition(unique, 0))


def test_trimmed_records_are_gone_and_the_rest_stays(log, reader, source):
    append(log, source, *(b"%d" % i for i in range(10)))
    log.trim(source, 6)
    wait_for(lambda: log.bounds(source).earliest == 6)
    assert log.bounds(source).end == 10
    reader.open(source, 0)
    assert [r.value for r in read_to(reader, source, 10)] == [b"6", b"7", b"8", b"9"]


def test_a_trim_that_overtakes_a_reader_is_reported_to_it(log, reader, source):
    append(log, source, b"0")
    reader.open(source, 0)
    assert [r.value for r in read_to(reader, source, 1)] == [b"0"]
    reader.pause(source)
    append(log, source, *(b"%d" % i for i in range(1, 10)))
    log.trim(source, 6)
    wait_for(lambda: log.bounds(source).earliest == 6)
    reader.resume(source)
    with pytest.raises(LogUnavailable):
        wait_for(lambda: reader.poll(10, 0.1))


def test_a_log_trimmed_to_its_end_has_no_records(log, reader, source):
    append(log, source, b"a", b"b")
    log.trim(source, 2)
    wait_for(lambda: log.bounds(source) == Bounds(2, 2))
    append(log, source, b"c")
    assert read_all(log, reader, source) == [b"c"]


def test_a_large_record_comes_through(log, reader, source):
    value = bytes(range(256)) * (20 << 12)
    append(log, source, value, b"small")
    assert read_all(log, reader, source) == [value, b"small"]


def test_a_transaction_is_read_whole_or_not_at_all(log, reader, unique):
    log.create_topics({unique: 2})
    first, second = LogPartition(unique, 0), LogPartition(unique, 1)
    writer = log.writer(f"{unique}-id")
    writer.append(first, b"a")
    writer.append(second, b"b")
    reader.open(first, 0)
    reader.open(second, 0)
    assert not reader.poll(10, 0.5)
    assert log.bounds(first).end == 0
    writer.flush(TIMEOUT_S)
    found = []
    wait_for(lambda: found.extend(record.value for record in reader.poll(10, 0.1)) or len(found) == 2)
    assert sorted(found) == [b"a", b"b"]
    wait_for(lambda: not reader.poll(10, 0.1) and reader.at_end(first) and reader.at_end(second))
    assert (reader.position(first), reader.position(second)) == (log.bounds(first).end, log.bounds(second).end)
    writer.close()


def test_an_abandoned_transaction_is_never_read(log, reader, source):
    writer = log.writer("abandoned")
    writer.append(source, b"lost")
    writer.close()
    append(log, source, b"kept", transactional_id="abandoned")
    wait_for(lambda: log.bounds(source).end)  # the broker writes the commit marker after it answers the commit
    assert read_all(log, reader, source) == [b"kept"]


def test_positions_skip_the_gaps_that_transactions_leave(log, reader, source):
    for value in (b"a", b"b", b"c"):
        append(log, source, value, transactional_id="gaps")
    reader.open(source, 0)
    records = []
    # The broker answers a commit, then writes its marker, then moves the end that readers see.
    wait_for(lambda: records.extend(reader.poll(100, 0.1)) or len(records) >= 3)
    wait_for(lambda: records.extend(reader.poll(100, 0.1)) or reader.position(source) == log.bounds(source).end)
    assert [record.value for record in records] == [b"a", b"b", b"c"]
    assert [r.offset for r in records] == sorted({r.offset for r in records})
    assert not reader.poll(100, 0.1)


def test_a_newer_writer_of_an_id_fences_the_older(log, reader, source):
    old = log.writer("role")
    old.append(source, b"zombie")
    new = log.writer("role")
    new.append(source, b"heir")
    new.flush(TIMEOUT_S)

    def go_on() -> None:
        old.append(source, b"zombie too")
        old.flush(TIMEOUT_S)

    with pytest.raises(Fenced):
        go_on()
    old.close()
    new.close()
    wait_for(lambda: b"heir" in read_all(log, reader, source))
    assert read_all(log, reader, source) == [b"heir"]


def test_flush_without_appends_returns(log):
    log.writer().flush(TIMEOUT_S)
    log.writer("idle").flush(TIMEOUT_S)


def test_serve_is_quiet_while_all_goes_well(log, source):
    writer = log.writer()
    writer.serve()
    writer.append(source, b"a")
    writer.serve()
    writer.flush(TIMEOUT_S)
    writer.serve()


@pytest.mark.integration
def test_records_survive_a_killed_broker_and_waiting_appends_arrive(cluster, unique):
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap, delivery_timeout_s=90))
    source = LogPartition(unique, 0)
    log.create_topics({unique: 1})
    reader, writer = log.reader(), log.writer()
    reader.open(source, 0)
    writer.append(source, b"before")
    writer.flush(TIMEOUT_S)
    cluster.broker.kill()
    writer.append(source, b"meanwhile")
    cluster.broker.start()
    writer.flush(90.0)
    found = []
    wait_for(lambda: found.extend(r.value for r in reader.poll(10, 0.1)) or len(found) == 2, 90.0)
    assert found == [b"before", b"meanwhile"]
    reader.close()
    writer.close()


@pytest.mark.integration
def test_without_a_broker_an_append_is_ambiguous_and_queries_are_refused(cluster, unique):
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap, delivery_timeout_s=2, request_timeout_s=2))
    log.create_topics({unique: 1})
    writer = log.writer()
    writer.append(LogPartition(unique, 0), b"a")
    writer.flush(TIMEOUT_S)
    cluster.broker.kill()
    try:
        writer.append(LogPartition(unique, 0), b"b")
        with pytest.raises(AmbiguousAppend):
            writer.flush(TIMEOUT_S)
        with pytest.raises(AmbiguousAppend):
            writer.append(LogPartition(unique, 0), b"c")
        with pytest.raises(LogUnavailable):
            log.partitions(unique)
        with pytest.raises(LogUnavailable):
            log.bounds(LogPartition(unique, 0))
        writer.close()
    finally:
        cluster.broker.start()


def test_deleted_topics_are_gone_and_others_stay(log, unique):
    log.create_topics({unique: 2, f"{unique}-other": 1})
    append(log, LogPartition(unique, 0), b"a")
    log.delete_topics([unique, unique, f"{unique}-never-made"])
    wait_for(lambda: log.partitions(unique) == 0)
    assert log.partitions(f"{unique}-other") == 1
    log.delete_topics([unique])
    log.delete_topics([])


def test_a_topic_named_like_a_deleted_one_is_empty(log, reader, unique):
    log.create_topics({unique: 1})
    append(log, LogPartition(unique, 0), b"a")
    log.delete_topics([unique])
    wait_for(lambda: log.partitions(unique) == 0)
    log.create_topics({unique: 1})
    append(log, LogPartition(unique, 0), b"b")
    assert read_all(log, reader, LogPartition(unique, 0)) == [b"b"]
