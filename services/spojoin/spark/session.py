"""Starts Spark, quietly: on this machine, or as `spark-submit` has set it up."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spojoin.errors import ConfigurationError

LOCAL = "local[*]"
#: Set by `spark-submit`, whose own settings then apply.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

#: What any session needs: event times as statements read them.
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "32",
}
#: Errors alone, also of the logger by which Spark announces its level.
_QUIET = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = off
"""


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session of Spark, stopped at the end.

    master: None for all cores of this machine, or what `spark-submit` says where that started this process
    settings: further ones of Spark, by name; they replace those made here

    Raises ConfigurationError where Spark doesn't start.
    """
    master = master or (None if _SUBMITTED in os.environ else LOCAL)
    is_local = master is not None and master.startswith("local")
    if is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("spojoin backfill")
    if master is not None:
        builder = builder.master(master)
    with tempfile.TemporaryDirectory(prefix="spojoin-spark-") as folder:
        chosen = _SETTINGS | (_LOCAL_SETTINGS | _logging(Path(folder)) if is_local else {}) | dict(settings or {})
        for name, value in chosen.items():
            builder = builder.config(name, value)
        spark = _started(builder)
    try:
        yield spark
    finally:
        spark.stop()


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConfigurationError(
            "Spark doesn't start: it needs a Java 17 runtime, such as the package openjdk-17-jre-headless, on PATH or "
            "in JAVA_HOME"
        ) from error


def _logging(folder: Path) -> dict[str, str]:
    properties = folder / "log4j2.properties"
    properties.write_text(_QUIET)
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={properties.as_uri()}"}
