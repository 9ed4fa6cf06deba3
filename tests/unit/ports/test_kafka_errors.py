"""Errors that Kafka's clients report reach the callback that counts them."""

from __future__ import annotations

import time

from spojoin.local.net import free_port
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
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
