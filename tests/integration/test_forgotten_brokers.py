"""Clients that no longer find a broker are replaced; each message is written and read once, in order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from loadgen.load.connection import Connection
from loadgen.load.kafka_sender import KafkaSender
from spojoin.local.broker import LocalBroker
from spojoin.local.cluster import LocalCluster
from spojoin.ports import kafka_client
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition
from spojoin.ports.kafka import KafkaLog
from spojoin.ports.kafka_client import REPORTS
from spojoin.ports.kafka_reader import KafkaReader
from spojoin.ports.kafka_writer import KafkaWriter
from tests.support.stalled import stalled

pytestmark = pytest.mark.integration

PARTITIONS, EACH = 2, 500
NO_BROKERS = '{"brokers": {}}'


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence clients' own reports, which would contradict those that the tests make."""
    monkeypatch.setattr(kafka_client, "REPORT_MS", 3_600_000)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def send(sender: KafkaSender, topic: str, first: int, end: int) -> None:
    for partition in range(PARTITIONS):
        sender.send(LogPartition(topic, partition), numbers(first, end), 1_000 + first)


def forget(client: KafkaSender | KafkaReader | KafkaWriter) -> None:
    for _ in range(REPORTS):
        client._brokers.hear(NO_BROKERS)


def read(log: KafkaLog, topic: str, partition: int) -> list[tuple[bytes, int | None]]:
    source, reader = LogPartition(topic, partition), log.reader()
    reader.open(source, 0)
    found: list[tuple[bytes, int | None]] = []
    while not reader.at_end(source):
        found += [(record.value, record.timestamp_ms) for record in reader.poll(1_000, 1.0)]
    reader.close()
    return found


def wanted(*parts: tuple[int, int]) -> list[tuple[bytes, int]]:
    return [(value, 1_000 + first) for first, end in parts for value in numbers(first, end)]


def delivering(broker: LocalBroker, topic: str) -> KafkaSender:
    """A sender that has delivered `EACH` messages to each partition."""
    connection = Connection(broker.bootstrap)
    log, sender = connection.log(), KafkaSender(connection)
    log.create_topics({topic: PARTITIONS})
    log.close()
    send(sender, topic, 0, EACH)
    sender.flush(60)
    return sender


def test_a_new_client_sends_what_the_last_one_had_not_delivered(own_cluster: LocalCluster, unique: str) -> None:
    sender = delivering(own_cluster.broker, unique)
    send(sender, unique, EACH, 2 * EACH)  # the broker may have written some of these without acknowledging them
    own_cluster.broker.kill()
    send(sender, unique, 2 * EACH, 3 * EACH)
    first = sender._producer
    forget(sender)
    restart = threading.Timer(1.0, own_cluster.broker.start)
    restart.start()
    send(sender, unique, 3 * EACH, 4 * EACH)
    restart.join()
    sender.flush(60)
    assert sender._producer is not first
    for partition in range(PARTITIONS):
        assert read(sender._log, unique, partition) == wanted(*((EACH * n, EACH * (n + 1)) for n in range(4)))
    sender.close()


def test_what_is_dropped_has_its_order_whatever_the_order_of_the_reports(
    own_cluster: LocalCluster, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = delivering(own_cluster.broker, unique)
    reports: list[tuple[Any, ...]] = []
    take = sender._on_delivery
    monkeypatch.setattr(sender, "_on_delivery", lambda *report: reports.append(report))
    with stalled(own_cluster.broker):
        send(sender, unique, EACH, 2 * EACH)
        send(sender, unique, 2 * EACH, 3 * EACH)
        assert sender._drop() == 0
    for report in reversed(reports):  # the client may report queued messages before those in flight
        take(*report)
    parts = wanted((EACH, 2 * EACH), (2 * EACH, 3 * EACH))
    assert sender._undelivered() == {LogPartition(unique, partition): parts for partition in range(PARTITIONS)}
    sender.close()


def pretend_written(monkeypatch: pytest.MonkeyPatch, sender: KafkaSender, written: int) -> None:
    """Let each partition end `written` messages after those that were delivered."""
    monkeypatch.setattr(sender, "_end", lambda target: sender._begins[target] + EACH + written)


def test_what_the_log_has_got_meanwhile_is_not_sent_again_and_another_writer_is_reported(
    own_cluster: LocalCluster, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_cluster.broker
    senders = {written: delivering(broker, f"{unique}.{written}") for written in (-1, 0, 1, EACH, EACH + 1)}
    broker.kill()
    for written, sender in senders.items():
        topic = f"{unique}.{written}"
        send(sender, topic, EACH, 2 * EACH)
        forget(sender)
        pretend_written(monkeypatch, sender, written)
        if 0 <= written <= EACH:
            send(sender, topic, 2 * EACH, 2 * EACH)
        else:
            with pytest.raises(AmbiguousAppend, match="has another writer"):
                send(sender, topic, 2 * EACH, 3 * EACH)
    broker.start()
    for written in (0, 1, EACH):
        senders[written].flush(60)
        for partition in range(PARTITIONS):
            found = read(senders[written]._log, f"{unique}.{written}", partition)
            assert found == wanted((0, EACH)) + wanted((EACH, 2 * EACH))[written:]
    for sender in senders.values():
        sender.close()


def take(reader: KafkaReader, source: LogPartition, end: int) -> list[bytes]:
    found: list[bytes] = []
    while reader.position(source) < end:
        found += [record.value for record in reader.poll(1, 1.0)]
    return found


def test_a_reader_goes_on_by_a_new_client(own_cluster: LocalCluster, unique: str) -> None:
    going, paused = LogPartition(unique, 0), LogPartition(unique, 1)
    sender, log = delivering(own_cluster.broker, unique), Connection(own_cluster.broker.bootstrap).log()
    reader = log.reader()
    reader.open(going, 0)
    assert take(reader, going, 20) == numbers(0, 20)
    reader.open(paused, 7)
    reader.pause(paused)
    first = reader._consumer
    forget(reader)
    while reader._consumer is first:  # messages that the client had fetched come first
        reader.poll(EACH, 0.1)
    at = reader.position(going)
    send(sender, unique, EACH, 2 * EACH)
    sender.flush(60)
    assert take(reader, going, 2 * EACH) == numbers(at, 2 * EACH)
    assert not reader.poll(EACH, 0.5)
    reader.resume(paused)
    assert take(reader, paused, 2 * EACH) == numbers(7, 2 * EACH)
    for each in (reader, sender, log):
        each.close()


def test_a_commit_that_no_broker_will_hear_ends_early(own_cluster: LocalCluster, unique: str) -> None:
    log = Connection(own_cluster.broker.bootstrap).log()
    log.create_topics({unique: 1})
    writer = log.writer(unique)
    writer.append(LogPartition(unique, 0), b"1")
    own_cluster.broker.kill()
    forget(writer)
    with pytest.raises(AmbiguousAppend, match="finds no broker any more"):
        writer.flush(600)
    own_cluster.broker.start()
    writer.close()
    log.close()
