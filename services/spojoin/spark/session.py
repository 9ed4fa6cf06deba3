"""Starts the Spark session, reads the settings of a history's tasks, and turns Spark's errors into single sentences."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j import clientserver, java_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spojoin.errors import BadData, ConfigurationError
from spojoin.local.spark import SESSION_SETTINGS, local_spark, started

MEMORY, SHARES = "spark.spojoin.memory", "spark.spojoin.shares"
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

#: A Python error at the end of a task's error text: the class and the message.
_RAISED = re.compile(r"^spojoin\.errors\.(\w+): (.*)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z_]+)[\].]")
_SENTENCES = {
    "PATH_NOT_FOUND": "{path}: no such file or folder",
    "UNABLE_TO_INFER_SCHEMA": "no files of format {format} where rows should be: name their folder, or --format",
    "PATH_ALREADY_EXISTS": "{outputPath} exists already: name another place, or say what becomes of it, by --mode",
    "DATA_SOURCE_NOT_FOUND": "Spark knows no such format: correct its name, or add its package, "
    "--conf spark.jars.packages=GROUP:NAME:VERSION",
}

#: What a call of Spark raises if the JVM has ended: Py4J's general error if it has logged a broken connection.
LOST = Py4JError, ConnectionError

#: The loggers to which Py4J logs the end of a connection: its own and the root logger.
_LOGGERS = logging.getLogger(), java_gateway.logger, clientserver.logger
_PY4J = java_gateway.__file__, clientserver.__file__

#: A JVM doesn't say why it ends; usually the system is short of memory and kills it.
_ENDED = (
    "Spark's Java process ended before the answer was there. If the system killed it for want of memory (`dmesg` says "
    "so), use fewer cores at a time, --master 'local[1]', and less for each task, --memory; then start again"
)
LOCAL = "local[*]"
_NAME = "spojoin backfill"

#: Set by `spark-submit`, whose own settings then apply.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_LOCAL_SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "32"}


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """shares: the number of shares, None for as many as pay; memory_bytes: how much memory a task may take."""

    shares: int | None
    memory_bytes: int


def settings_of(spark: SparkSession) -> HistorySettings:
    """The session's settings. Raises ConfigurationError if one is invalid."""
    shares, memory = spark.conf.get(SHARES, ""), spark.conf.get(MEMORY, "2g")
    if shares and not (shares.isascii() and shares.isdigit() and int(shares) > 0):
        raise ConfigurationError(f"{SHARES} is {shares!r}: expected a number of shares, from 1")
    return HistorySettings(int(shares) if shares else None, bytes_of(memory or ""))


def bytes_of(memory: str) -> int:
    """A size in bytes, from text. Raises ConfigurationError if it isn't a size."""
    found = _SIZE.fullmatch(memory)
    if found is None:
        raise ConfigurationError(f"{MEMORY} is {memory!r}: expected a size such as '4g'")
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))


@contextmanager
def sentences() -> Iterator[None]:
    """Turns Spark's errors into this package's, and keeps Py4J from logging those that it raises."""
    broken = _BrokenConnections()
    for logger in _LOGGERS:
        logger.addFilter(broken)
    try:
        yield
    except PySparkException as error:
        raise _of_spark(error) from error
    except Py4JJavaError as error:
        raise _of_java(str(error.java_exception.toString())) from error
    except LOST as error:
        if type(error) is Py4JError and not broken.is_any:  # the JVM runs and has answered that there is no such method
            raise
        raise ConfigurationError(_ENDED) from error
    finally:
        for logger in _LOGGERS:
            logger.removeFilter(broken)


class _BrokenConnections(logging.Filter):
    """Drops Py4J's log records about broken connections, which have tracebacks."""

    is_any = False

    def filter(self, record: logging.LogRecord) -> bool:
        is_one = record.pathname in _PY4J
        self.is_any |= is_one
        return not is_one


def _of_java(text: str) -> ConfigurationError:
    condition = _CONDITION.search(text)
    sentence = _SENTENCES.get(condition[1]) if condition else None
    return ConfigurationError(f"Spark: {_first_line(text)}" if sentence is None else _ErrorParameters().fill(sentence))


def _of_spark(error: PySparkException) -> ConfigurationError | BadData:
    raised = _RAISED.findall(str(error))
    if raised:  # the error was raised by a task
        name, text = raised[-1]
        return BadData(text) if name == "BadData" else ConfigurationError(text)
    said = {name: str(value).strip("'`\"") for name, value in (error.getMessageParameters() or {}).items()}
    sentence = _SENTENCES.get(error.getCondition() or "")
    if sentence is not None:
        return ConfigurationError(_ErrorParameters(said).fill(sentence))
    return ConfigurationError(f"Spark: {_first_line(str(error))}")


class _ErrorParameters(dict[str, str]):
    """The parameters of a Spark error, by name; an unknown name becomes a question mark."""

    def fill(self, sentence: str) -> str:
        return sentence.format_map(self)

    def __missing__(self, name: str) -> str:
        return "?"


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "an error without a message")


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session of Spark, stopped at the end.

    master: None means all cores of this machine, or what `spark-submit` says if it started this process
    settings: further settings of Spark, by name; they take precedence over the settings made here

    Raises ConfigurationError if Spark doesn't start.
    """
    spark = _start(_master(master), dict(settings or {}))
    _silence_lost_jvm(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _silence_lost_jvm(spark: SparkSession) -> None:
    """Keep Spark's accumulator server from printing a traceback when the JVM ends; calls raise an error anyway."""
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None


def is_local(master: str | None) -> bool:
    """Whether a session with this master runs only on this machine."""
    return (_master(master) or "").startswith("local")


def _master(master: str | None) -> str | None:
    """The master to set; None if `spark-submit` started this process and sets it."""
    return master or (None if _SUBMITTED in os.environ else LOCAL)


def _start(master: str | None, settings: dict[str, str]) -> SparkSession:
    if master is not None and is_local(master):
        return local_spark(_NAME, master, _LOCAL_SETTINGS | settings, log_level="off")
    return started(_NAME, master, SESSION_SETTINGS | settings)
