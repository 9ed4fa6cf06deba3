"""Offsets that a broker doesn't know yet are asked for again; a client that finds no broker is asked only once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from spojoin.ports import kafka
from spojoin.ports.interfaces import Bounds, LogPartition, LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog

SOURCE = LogPartition("t", 0)


class Admin:
    """A client whose broker answers with these offsets in turn, the last one again and again."""

    def __init__(self, *answers: int) -> None:
        self._answers: Iterator[int] = iter(answers)
        self._last = 0

    def list_offsets(self, wanted: dict[object, object], **_: object) -> dict[object, Future[SimpleNamespace]]:
        self._last = next(self._answers, self._last)
        future: Future[SimpleNamespace] = Future()
        future.set_result(SimpleNamespace(offset=self._last))
        return dict.fromkeys(wanted, future)

    def list_topics(self, _topic: str | None, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: SimpleNamespace(replicas=[1])}, error=None)})


class LostAdmin:
    """A client that finds no broker any more."""

    def list_topics(self, _topic: str | None, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))

    def poll(self, _timeout: float) -> None:
        """Nothing is reported."""


def log_of(*answers: int) -> KafkaLog:
    log = KafkaLog(KafkaConfig("nobody:9092", request_timeout_s=0.3))
    log._admin_client = Admin(*answers)  # type: ignore[assignment]
    return log


def test_an_offset_that_is_not_known_yet_is_asked_for_again() -> None:
    assert log_of(-1001, -1, 3, -1001, 7).bounds(SOURCE) == Bounds(3, 7)


def test_another_client_asks_for_one_that_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AdminClient", lambda *_, **__: Admin(7))
    assert log_of(-1001).end(SOURCE) == 7


def test_one_that_no_client_knows_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AdminClient", lambda *_, **__: Admin(-1001))
    with pytest.raises(LogUnavailable, match=r"no offsets of t\[0\].*doesn't know it yet"):
        log_of(-1001).bounds(SOURCE)


def test_a_client_that_finds_no_broker_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter((LostAdmin(), Admin()))
    monkeypatch.setattr(kafka, "AdminClient", lambda *_, **__: next(made))
    log = KafkaLog(KafkaConfig("nobody:9092"))
    with pytest.raises(LogUnavailable, match="Kafka at nobody:9092 does not answer"):
        log.partitions("t")
    assert [log.partitions("t"), log.partitions("t")] == [1, 1]
