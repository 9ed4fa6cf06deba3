"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Bootstrap = Annotated[
    str | None,
    typer.Option(
        help="Kafka, host:port; several with commas. Default: SPOJOIN_BOOTSTRAP_SERVERS, else 127.0.0.1:9092.",
        metavar="HOST:PORT",
    ),
]
KafkaProperty = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        "--kafka-property",
        metavar="NAME=VALUE",
        help="A client property as librdkafka names it, such as security.protocol=SASL_SSL; repeatable. "
        "SPOJOIN_KAFKA may hold a JSON object of them.",
    ),
]
TopicOf = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="STREAM=TOPIC", help="Where a stream isn't in `in.<stream>`; repeatable."),
]
Seed = Annotated[int, typer.Option(min=0, help="Other seeds give other rows; the same seed always the same.")]
First = Annotated[int, typer.Option(min=0, help="Begin with this row of each stream: go on where a run ended.")]
BatchRows = Annotated[
    int | None, typer.Option(min=1, help="Rows of an Arrow message. Default: those of 10 ms, at most 4,096.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback where something fails.")]
QueryFile = Annotated[
    Path | None, typer.Option("--query", help="The query that is served. Default: the workload's own.", exists=True)
]
Local = Annotated[bool, typer.Option("--local", help="Start Kafka, Redis and all services on this machine for it.")]
Workers = Annotated[int, typer.Option(min=1, help="Of services started here: PO-Join workers.")]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Of services started here: a setting such as frame_tuples=256; repeatable.",
    ),
]
RetentionBytes = Annotated[
    int | None,
    typer.Option(min=1 << 20, help="Of a topic that is made: bytes kept of each partition. Default: all of them."),
]
Partitions = Annotated[
    int | None,
    typer.Option(min=1, help="Partitions of each topic to send to, and of a topic that is made. Default: all it has."),
]
