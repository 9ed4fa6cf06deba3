"""The settings of a history's tasks, among those of the Spark session."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spojoin.errors import ConfigurationError

MEMORY, SHARES = "spark.spojoin.memory", "spark.spojoin.shares"
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """shares: in how many parts rows are answered, None for as many as pay; memory_bytes: what a task may take."""

    shares: int | None
    memory_bytes: int


def settings_of(spark: SparkSession) -> HistorySettings:
    """The session's settings. Raises ConfigurationError where one is none."""
    shares, memory = spark.conf.get(SHARES, ""), spark.conf.get(MEMORY, "2g")
    if shares and not (shares.isascii() and shares.isdigit() and int(shares) > 0):
        raise ConfigurationError(f"{SHARES} is {shares!r}: expected a number of shares, from 1")
    return HistorySettings(int(shares) if shares else None, bytes_of(memory or ""))


def bytes_of(memory: str) -> int:
    """A size in bytes. Raises ConfigurationError where it is none."""
    found = _SIZE.fullmatch(memory)
    if found is None:
        raise ConfigurationError(f"{MEMORY} is {memory!r}: expected a size such as '4g'")
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))
