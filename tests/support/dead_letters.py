"""Dead letters as a consumer of committed records finds them."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from spojoin.protocol.topology import dead_letter_topic


class Letter(NamedTuple):
    """A dead letter: the reason, the place of its row (partition, offset, row), and its value."""

    reason: str
    place: tuple[int, int, int]
    value: bytes


def dead_letters(bootstrap: str, topic: str, patience_s: float) -> list[Letter]:
    """The dead letters of an input `topic` that are out by now, in the order of their topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(dead_letter_topic(topic), 0, OFFSET_BEGINNING)])
    found = []
    try:
        while (message := consumer.poll(patience_s)).error() is None:
            said = {name: value.decode() for name, value in message.headers()}
            partition, offset, row = (int(said[f"spojoin-source-{name}"]) for name in ("partition", "offset", "row"))
            found.append(Letter(said["spojoin-reason"], (partition, offset, row), message.value()))
        assert message.error().code() == KafkaError._PARTITION_EOF
    finally:
        consumer.close()
    return found
