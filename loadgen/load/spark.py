"""Starts Spark and configures its access to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from spojoin.local.jars import Progress, fetch
from spojoin.local.spark import local_spark

#: Tested with pyspark 4.0.5. Newer connectors lack a dependency on Maven Central.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

#: The rows that Python gets at once: few enough to bound its memory, and at least as many as any sensible message
#: holds.
ARROW_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker: `host:port[,host:port]`, and client settings by Kafka's own names, for example `security.protocol`."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """As options of Spark's kafka source and sink."""
        return {f"kafka.{k}": v for k, v in {"bootstrap.servers": self.bootstrap_servers, **self.settings}.items()}


def connector(cache: Path | None = None, progress: Progress = print) -> Path:
    """The folder with the Kafka connector's jars, fetched once."""
    return fetch("spark-kafka", (CONNECTOR,), cache, progress)


def start(
    cache: Path | None = None,
    *,
    cores: int = 2,
    tries: int = 1,
    name: str = "spojoin-loadgen",
    progress: Progress = print,
) -> SparkSession:
    """A local Spark session with the Kafka connector, or the one that runs already.

    The connector is fetched once into `cache` (default: the cache folder of all jars); later starts need no network.
    It is loaded only if this starts the process's first Spark, since a JVM's class path doesn't grow.
    tries: of a task, until its job fails

    Raises ConfigurationError if Java, the network or disk space is missing.
    """
    jars = sorted(connector(cache, progress).glob("*.jar"))
    settings = _SETTINGS | {"spark.jars": ",".join(map(str, jars))}
    session = local_spark(name, f"local[{cores},{tries}]", settings)
    session.sparkContext.setLogLevel("ERROR")
    return session


_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.schemaInference": "true",
    # A file must never be split between tasks: a table's order within a Kafka partition depends on a single task.
    "spark.sql.files.maxPartitionBytes": "64g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
}
