"""Spark's errors that a user can correct, each as one sentence."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j import clientserver, java_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from spojoin.errors import BadData, ConfigurationError

#: How Python's own errors end the text of a task's: the class, and what it says.
_RAISED = re.compile(r"^spojoin\.errors\.(\w+): (.*)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z_]+)[\].]")
_SENTENCES = {
    "PATH_NOT_FOUND": "{path}: no such file or folder",
    "UNABLE_TO_INFER_SCHEMA": "no files of format {format} where rows should be: name their folder, or --format",
    "PATH_ALREADY_EXISTS": "{outputPath} exists already: name another place, or say what becomes of it, by --mode",
    "DATA_SOURCE_NOT_FOUND": "Spark knows no such format: correct its name, or add its package, "
    "--conf spark.jars.packages=GROUP:NAME:VERSION",
}
#: What any call of a Spark raises whose JVM has ended; Py4J's general error where it has logged a broken connection.
LOST = Py4JError, ConnectionError
#: By which Py4J logs a connection's end: its own, and the root itself.
_LOGGERS = logging.getLogger(), java_gateway.logger, clientserver.logger
_PY4J = java_gateway.__file__, clientserver.__file__
#: A JVM doesn't say why it ends; the usual reason is that the system is short of memory and kills it.
_ENDED = (
    "Spark's Java process ended before the answer was there. If the system killed it for want of memory (`dmesg` says "
    "so), use fewer cores at a time, --master 'local[1]', and less for each task, --memory; then start again"
)


@contextmanager
def sentences() -> Iterator[None]:
    """Turns Spark's errors into this package's; what Py4J raises it doesn't log besides."""
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
        if type(error) is Py4JError and not broken.is_any:  # a JVM has answered that there is no such method
            raise
        raise ConfigurationError(_ENDED) from error
    finally:
        for logger in _LOGGERS:
            logger.removeFilter(broken)


class _BrokenConnections(logging.Filter):
    """Leaves out what Py4J logs where a connection breaks, with a traceback."""

    is_any = False

    def filter(self, record: logging.LogRecord) -> bool:
        is_one = record.pathname in _PY4J
        self.is_any |= is_one
        return not is_one


def _of_java(text: str) -> ConfigurationError:
    condition = _CONDITION.search(text)
    sentence = _SENTENCES.get(condition[1]) if condition else None
    return ConfigurationError(f"Spark: {_first_line(text)}" if sentence is None else _Given().fill(sentence))


def _of_spark(error: PySparkException) -> ConfigurationError | BadData:
    raised = _RAISED.findall(str(error))
    if raised:  # by a task
        name, text = raised[-1]
        return BadData(text) if name == "BadData" else ConfigurationError(text)
    said = {name: str(value).strip("'`\"") for name, value in (error.getMessageParameters() or {}).items()}
    sentence = _SENTENCES.get(error.getCondition() or "")
    if sentence is not None:
        return ConfigurationError(_Given(said).fill(sentence))
    return ConfigurationError(f"Spark: {_first_line(str(error))}")


class _Given(dict[str, str]):
    """What Spark says of an error; a name that it doesn't know is left out."""

    def fill(self, sentence: str) -> str:
        return sentence.format_map(self)

    def __missing__(self, name: str) -> str:
        return "?"


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "an error without a message")
