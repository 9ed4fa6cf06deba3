"""The one place that starts Spark and says how it reaches Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from spojoin.local.jars import Progress, fetch
from spojoin.local.spark import local_spark

#: Tried together with pyspark 4.0.5; newer connectors lack a dependency on Maven Central, so the two stay in one place.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

#: Rows handed to Python at once; bounds its memory, and is no smaller than any sensible message of rows.
ARROW_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker: `host:port[,host:port]`, and client settings such as `security.protocol` in Kafka's own names."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """As options of Spark's kafka source and sink."""
        return {f"kafka.{k}": v for k, v in {"bootstrap.servers": self.bootstrap_servers, **self.settings}.items()}


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
    It takes part only where this starts the process's first Spark: a JVM's class path doesn't grow.
    tries: of a task, before its job fails

    Raises ConfigurationError where Java, the network or disk space is missing.
    """
    jars = sorted(fetch("spark-kafka", (CONNECTOR,), cache, progress).glob("*.jar"))
    settings = _SETTINGS | {"spark.jars": ",".join(map(str, jars))}
    session = local_spark(name, f"local[{cores},{tries}]", settings)
    session.sparkContext.setLogLevel("ERROR")
    return session


_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.schemaInference": "true",
    # A file must never be split over tasks: one task is what keeps a table's order within a Kafka partition.
    "spark.sql.files.maxPartitionBytes": "64g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
}
