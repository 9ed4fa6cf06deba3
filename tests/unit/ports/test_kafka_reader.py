"""What the Kafka client gives in one piece is taken in its order, reports among records included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, TopicPartition

from spojoin.local.net import free_port
from spojoin.ports.interfaces import LogPartition, LogRecord, LogUnavailable
from spojoin.ports.kafka_reader import KafkaReader

A, B = LogPartition("t", 0), LogPartition("t", 1)


class Given:
    """A message as the client gives it."""

    def __init__(
        self,
        source: LogPartition | None,
        offset: int | None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        error: int | None = None,
    ) -> None:
        self.source, self._offset, self._value, self._headers = source, offset, value, headers
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str | None:
        return None if self.source is None else self.source.topic

    def partition(self) -> int | None:
        return None if self.source is None else self.source.partition

    def offset(self) -> int | None:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000 + (self._offset or 0)

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self._headers

    def key(self) -> bytes | None:
        return b"key" if self._value == b"x" else None


class Client:
    """A consumer that gives what it was told to, all at once."""

    def __init__(self) -> None:
        self.messages: list[Given] = []
        self.assigned: list[TopicPartition] = []

    def list_topics(self, topic: str, timeout: float) -> None:
        """Nothing is known of any topic."""

    def poll(self, _: float) -> Given | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, count: int, _: float) -> list[Given]:
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    def incremental_assign(self, wanted: list[TopicPartition]) -> None:
        self.assigned += wanted

    def incremental_unassign(self, _: list[TopicPartition]) -> None: ...

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        return 40, 50


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def reader(client: Client) -> Iterator[KafkaReader]:
    made = KafkaReader({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, 1 << 20)
    real, made._consumer = made._consumer, client  # type: ignore[assignment]
    made.open(A, 5)
    made.open(B, 0)
    yield made
    real.close()


def end(source: LogPartition, offset: int) -> Given:
    return Given(source, offset, error=KafkaError._PARTITION_EOF)


def test_records_and_ends_count_in_their_order(client: Client, reader: KafkaReader) -> None:
    client.messages = [Given(A, 5, b"a"), end(A, 6), Given(B, 0, b"b"), Given(A, 8, b"c"), end(B, 3)]
    assert [(r.input, r.offset, r.value) for r in reader.poll(10, 0)] == [(A, 5, b"a"), (B, 0, b"b"), (A, 8, b"c")]
    assert (reader.position(A), reader.at_end(A)) == (9, False)
    assert (reader.position(B), reader.at_end(B)) == (3, True)
    client.messages = [end(A, 12), Given(B, 3, b"d")]
    assert [r.value for r in reader.poll(10, 0)] == [b"d"]
    assert (reader.position(A), reader.at_end(A)) == (12, True)
    assert (reader.position(B), reader.at_end(B)) == (4, False)


def test_what_a_message_lacks_is_empty(client: Client, reader: KafkaReader) -> None:
    client.messages = [Given(A, 5), Given(A, 6, b"x", [("h", b"1"), ("h", b"2")]), Given(A, 7, b"y", [])]
    records = reader.poll(10, 0)
    assert records == [
        LogRecord(A, 5, 1_005, b"", ()),
        LogRecord(A, 6, 1_006, b"x", (("h", b"1"), ("h", b"2")), b"key"),
        LogRecord(A, 7, 1_007, b"y", ()),
    ]
    assert all(type(record) is LogRecord for record in records)


def test_an_input_that_was_trimmed_before_it_was_read_starts_where_it_begins(
    client: Client, reader: KafkaReader
) -> None:
    client.messages = [Given(B, 0, b"b"), Given(A, None, error=KafkaError._AUTO_OFFSET_RESET)]
    assert [r.value for r in reader.poll(10, 0)] == [b"b"]
    assert client.assigned[-1].offset == reader.position(A) == 40
    client.messages = [Given(A, 40, b"a"), Given(A, None, error=KafkaError._AUTO_OFFSET_RESET)]
    with pytest.raises(LogUnavailable, match="trimmed beyond 41"):
        reader.poll(10, 0)


@pytest.mark.parametrize("source", [None, A])
def test_other_errors_are_raised(client: Client, reader: KafkaReader, source: LogPartition | None) -> None:
    client.messages = [Given(A, 5, b"a"), Given(source, None, error=KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(LogUnavailable):
        reader.poll(10, 0)
