"""Errors that Kafka's clients report reach the callback that counts them."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError

from spojoin.local.net import free_port
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.kafka_reach import ClientReports
from spojoin.telemetry.metrics import KAFKA_ERRORS

PATIENCE_S = 60


def test_an_unreachable_broker_is_reported() -> None:
    reported: list[str] = []
    log = KafkaLog(KafkaConfig(f"127.0.0.1:{free_port()}", on_error=lambda error: reported.append(error.name())))
    reader = log.reader()
    reader.open(LogPartition("t", 0), 0)
    deadline = time.monotonic() + PATIENCE_S
    while not set(KAFKA_ERRORS) & set(reported) and time.monotonic() < deadline:
        reader.poll(1, 0.1)
    reader.close()
    assert set(KAFKA_ERRORS) & set(reported)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (KafkaError._SSL, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?"),
        (KafkaError._TRANSPORT, "Disconnected: SSL connection closed by peer (after 3ms in state SSL_HANDSHAKE)"),
    ],
)
def test_a_listener_in_the_clear_is_named_however_it_ends_tls(code: int, why: str) -> None:
    reports = ClientReports("here:9092", {"security.protocol": "SSL"})
    reports.hear(KafkaError(code, f"ssl://here:9092/bootstrap: {why}"))
    told = reports.why()
    assert told is not None
    assert told.startswith("no TLS with here:9092: ")
    assert "PLAINTEXT" in told


def test_a_listener_that_refuses_connections_is_named_in_the_words_of_the_check() -> None:
    reports = ClientReports("here:9092", {})
    refused = "Connect to ipv4#10.0.0.7:9093 failed: Connection refused (after 0ms in state CONNECT)"
    reports.hear(KafkaError(KafkaError._TRANSPORT, f"there:9093/1: {refused}"))
    told = reports.why()
    assert told is not None
    assert "names there:9093 as the address of a broker" in told
    assert "from here: connection refused; set advertised.listeners" in told
