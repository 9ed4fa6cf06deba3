"""The one place that starts Spark and says how it reaches Kafka."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from spojoin.local.jars import Progress, fetch

#: Tried together with pyspark 4.0.5; newer connectors lack a dependency on Maven Central, so the two stay in one place.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

#: Rows handed to Python at once; bounds its memory, and is no smaller than any sensible message of rows.
ARROW_BATCH_ROWS = 131_072

_QUIET = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker: `host:port[,host:port]`, and client settings such as `security.protocol` in Kafka's own names."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """As options of Spark's kafka source and sink."""
        return {f"kafka.{k}": v for k, v in {"bootstrap.servers": self.bootstrap_servers, **self.settings}.items()}


def start(
    cache: Path | None = None, *, cores: int = 2, name: str = "spojoin-loadgen", progress: Progress = print
) -> SparkSession:
    """A local Spark session with the Kafka connector, or the one that runs already.

    The connector is fetched once into `cache` (default: the cache folder of all jars); later starts need no network.
    Raises ConfigurationError where Java, the network or disk space is missing.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    with tempfile.TemporaryDirectory(prefix="spojoin-spark-") as folder:
        for key, value in (_SETTINGS | _connector(cache, progress) | _logging(Path(folder))).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.schemaInference": "true",
    # A file must never be split over tasks: one task is what keeps a table's order within a Kafka partition.
    "spark.sql.files.maxPartitionBytes": "64g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
}


def _connector(cache: Path | None, progress: Progress) -> dict[str, str]:
    jars = sorted(fetch("spark-kafka", (CONNECTOR,), cache, progress).glob("*.jar"))
    return {"spark.jars": ",".join(map(str, jars))}


def _logging(folder: Path) -> dict[str, str]:
    properties = folder / "log4j2.properties"
    properties.write_text(_QUIET)
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={properties.as_uri()}"}
