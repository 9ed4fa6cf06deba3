"""The common parts of the files of `loadgen produce`, `ramp` and `chaos`: rows, Kafka, and services to start."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from loadgen.load.connection import Connection, connection
from loadgen.load.files import Duration, ExistingFile, FilePart, FiniteDuration, Texts, seconds
from loadgen.load.formats import MessageFormat
from loadgen.load.load import Arrivals, Load
from loadgen.load.load_streams import LOADS, LoadName
from spojoin.errors import ConfigurationError
from spojoin.local.serve import WORKERS, ServePlan
from spojoin.model import Query
from spojoin.query.load import load_query


class SentFormat(StrEnum):
    """Whether a message holds many rows or one."""

    ARROW = "arrow"
    JSON = "json"


class Via(StrEnum):
    """The way to send rows to Kafka."""

    KAFKA = "kafka"
    SPARK = "spark"


class RowsPart(FilePart):
    """Which rows go out, and how."""

    format: SentFormat = Field(
        default=SentFormat.ARROW, description="arrow: many rows a message; json: one object a message."
    )
    batch_rows: int | None = Field(
        default=None, ge=1, description="Rows of an Arrow message. null: those of 10 ms, at most 4,096."
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        description="Partitions of each topic to send to, and of topics that are created. null: all it has.",
    )
    first: int = Field(
        default=0, ge=0, description="Start with this row of each stream, to continue where a run ended."
    )
    on_share: float | None = Field(
        default=None, ge=0.01, le=1.0, description="Send in this share of each period only. null: 1; for bursty, 0.25."
    )
    period: float = Field(default=2.0, ge=0.1, description="The period of on_share, in seconds.")
    topics: Texts = Field(default={}, description="Topics by stream, where a stream isn't sent to in.<stream>.")


class ServicesPart(FilePart):
    """The served query, and the services to start for it."""

    query: ExistingFile | None = Field(default=None, description="The query that is served. null: the workload's own.")
    workers: int = Field(default=WORKERS, ge=1, description="PO-Join workers of services that are started here.")
    settings: Texts = Field(
        default={}, description="Settings of services that are started here, such as {frame_tuples: 256}."
    )


class LoadFile(FilePart):
    """The settings of every command that sends rows."""

    workload: LoadName = Field(description=f"What to send: {', '.join(LOADS)}. `loadgen workloads` describes them.")
    seed: int = Field(default=0, ge=0, description="Each seed gives other rows; the same seed always gives the same.")
    rows: RowsPart = Field(default=RowsPart(), description="Which rows go out, and how.")
    bootstrap: str | None = Field(
        default=None,
        description="Kafka: host:port, several with commas. null: SPOJOIN_BOOTSTRAP_SERVERS, or 127.0.0.1:9092.",
    )
    kafka: Texts = Field(
        default={},
        description="Client properties in librdkafka's names, added to those of SPOJOIN_KAFKA, a JSON object.",
    )

    def load(self, rate: float, duration: str) -> Load:
        """The load, without the number of partitions. Raises ConfigurationError."""
        workload, rows = LOADS[self.workload.value], self.rows
        own = {stream.name for stream in workload.streams}
        for name in rows.topics.keys() - own:
            raise ConfigurationError(f"rows.topics names {name!r}; expected some of {', '.join(sorted(own))}")
        arrivals = Arrivals(rate, workload.on_share if rows.on_share is None else rows.on_share, rows.period)
        lasts_s = seconds(duration)
        count = None if lasts_s is None else max(1, int(arrivals.rows_due(lasts_s)) // len(own))
        message = MessageFormat(rows.format.value)
        batch_rows = rows.batch_rows if message is MessageFormat.ARROW else None
        return Load(workload, arrivals, self.seed, rows.first, count, message, batch_rows, topics=rows.topics)

    def connection(self) -> Connection:
        """The Kafka that already runs. Raises ConfigurationError."""
        return connection(self.bootstrap, self.kafka)


class ProduceFile(LoadFile):
    """The file of `loadgen produce`."""

    rate: float = Field(default=1_000.0, ge=0.1, description="Rows a second, of all streams together.")
    duration: Duration = Field(default="60s", description="90s, 5m, 1.5h or forever.")
    via: Via = Field(default=Via.KAFKA, description="kafka: straight to Kafka; spark: as a Spark job.")
    retention_bytes: int | None = Field(
        default=None, ge=1 << 20, description="Bytes that a topic created here keeps of each partition. null: all."
    )
    report: Path | None = Field(default=None, description="Where to write what was sent, as JSON. null: nowhere.")


class ServedLoadFile(LoadFile):
    """The settings of commands that can start services."""

    services: ServicesPart = Field(
        default=ServicesPart(), description="The query, and services that are started for it."
    )

    def query_file(self) -> Path:
        return self.services.query or LOADS[self.workload.value].query_path

    def query(self) -> Query:
        """The served query. Raises ConfigurationError if its streams aren't the workload's."""
        query, workload = load_query(self.query_file()), LOADS[self.workload.value]
        names, made = [s.name for s in query.inputs], [s.name for s in workload.streams]
        if names != made:
            raise ConfigurationError(
                f"{query.name} joins the streams {', '.join(names)}, but {workload.name} sends {', '.join(made)}"
            )
        return query

    def serve_plan(self, restarts_max: int = 0) -> ServePlan:
        """Services of the query, started here. Raises ConfigurationError."""
        if self.rows.topics:
            raise ConfigurationError(
                "rows.topics is for services that run already: those started here read in.<stream>"
            )
        if self.bootstrap or self.kafka:
            raise ConfigurationError(
                "bootstrap and kafka are for services that run already: Kafka is started for those started here"
            )
        return ServePlan(
            self.query(),
            self.query_file(),
            self.services.workers,
            settings=self.services.settings,
            partitions=self.rows.partitions or 1,
            restarts_max=restarts_max,
        )


class RampFile(ServedLoadFile):
    """The file of `loadgen ramp`."""

    start: float = Field(default=10_000.0, ge=1, description="The first rate to try, in rows a second.")
    max: float = Field(default=5_000_000.0, ge=1, description="The highest rate to try.")
    p99_ms: float = Field(default=150.0, ge=1, description="The bound of p99, in milliseconds.")
    local: bool = Field(default=False, description="Start Kafka, Redis and all services on this machine.")
    measure: FiniteDuration = Field(default="10s", description="How long each rate is measured.")
    settle: FiniteDuration = Field(default="3s", description="How long each rate runs before it is measured.")
    drain: FiniteDuration = Field(default="60s", description="How long the services may take to catch up afterwards.")
    fill: int | None = Field(
        default=None, ge=0, description="Rows of each stream to send beforehand. null: as many as the window holds."
    )
    precision: float = Field(default=0.1, ge=0.01, description="How closely the limit is found, as a share of it.")
    output: Path = Field(default=Path("ramp"), description="The folder for ramp.json and ramp.html.")
