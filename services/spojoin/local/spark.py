"""Starts a Spark on this machine: quiet, without web pages, with this Python for its tasks."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spojoin.errors import ConfigurationError

#: What any session needs: event times as statements read them.
SESSION_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
_SETTINGS = SESSION_SETTINGS | {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "spojoin.spark.daemon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
#: The second logger is the one with which Spark announces its level.
_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = off
"""


def local_spark(name: str, master: str, settings: Mapping[str, str], log_level: str = "error") -> SparkSession:
    """A session of a Spark in this process, or the one that runs already.

    master: such as `local[2]`
    settings: further settings of Spark, by name; they take precedence over the settings made here
    log_level: Log4j's level, `off` for no log

    Raises ConfigurationError if Java is missing.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="spojoin-spark-") as folder:
        return started(name, master, _SETTINGS | _logging(Path(folder), log_level) | dict(settings))


def started(name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """A session with settings, or the one that runs already; raises ConfigurationError if Java is missing.

    master: None for the master of `spark-submit`
    """
    conf = SparkConf().setAppName(name)
    if master is not None:
        conf.setMaster(master)
    conf.setAll(list(settings.items()))  # last: a setting may name another master
    try:
        with _interrupt_kept():
            SparkContext.getOrCreate(conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkException as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConfigurationError(
            "Spark doesn't start: it needs a Java 17 runtime, such as the package openjdk-17-jre-headless, on PATH or "
            "in JAVA_HOME"
        ) from error


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C: Spark's handler calls its JVM in the middle of another answer, and fails."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():  # in other threads Spark sets no handler
            signal.signal(signal.SIGINT, before)


def _logging(folder: Path, level: str) -> dict[str, str]:
    properties = folder / "log4j2.properties"
    properties.write_text(_LOGGING.format(level=level))
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={properties.as_uri()}"}
