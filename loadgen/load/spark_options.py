"""Options of the commands that reach Kafka by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loadgen.load.connection import BOOTSTRAP_VARIABLE, connection, java_properties, pairs

if TYPE_CHECKING:
    from loadgen.load.spark import Kafka

Bootstrap = Annotated[str, typer.Option(help="Kafka, host:port; several with commas.", envvar=BOOTSTRAP_VARIABLE)]
Property = Annotated[
    list[str] | None,
    typer.Option(
        help="A property of Java's Kafka client, name=value, such as security.protocol=SSL; repeatable. It adds to "
        "those of SPOJOIN_KAFKA, a JSON object in librdkafka's names."
    ),
]


def kafka_of(bootstrap: str, properties: list[str] | None) -> Kafka:
    """A cluster for Spark. Raises ConfigurationError."""
    from loadgen.load.spark import Kafka  # noqa: PLC0415  (Spark is an extra)

    known = java_properties(connection(bootstrap, {}).properties)
    return Kafka(bootstrap, known | pairs(properties or (), "kafka-property"))
