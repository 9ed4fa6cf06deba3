"""A client that finds no broker any more is replaced."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from spojoin.ports import kafka
from spojoin.ports.interfaces import LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog


class Admin:
    """A client that is lost for good, or one that finds a topic of one partition."""

    def __init__(self, *, is_lost: bool) -> None:
        self._is_lost = is_lost

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        if self._is_lost:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None}, error=None)})

    def poll(self, _timeout: float) -> None:
        """Nothing is reported."""


def making(*clients: Admin) -> Callable[..., Admin]:
    waiting = iter(clients)
    return lambda *_, **__: next(waiting)


def test_a_client_that_is_lost_serves_one_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AdminClient", making(Admin(is_lost=True), Admin(is_lost=False)))
    log = KafkaLog(KafkaConfig("nobody:9092"))
    with pytest.raises(LogUnavailable, match="Kafka at nobody:9092 does not answer"):
        log.partitions("t")
    assert [log.partitions("t"), log.partitions("t")] == [1, 1]
