"""From what users say to a history that can be explained and answered."""

from __future__ import annotations

import dataclasses
import re

from pyspark.sql import SparkSession

from spojoin.embedded.arguments import checked_number
from spojoin.errors import ConfigurationError
from spojoin.spark.asked import Asked
from spojoin.spark.history import History, Options
from spojoin.spark.ordering import OrderBy, order_of
from spojoin.spark.until import UntilValue, until_of

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def planned(spark: SparkSession, asked: Asked, order_by: OrderBy, until: UntilValue, options: Options) -> History:
    """The history of what is asked, in an order, answered before `until`. Raises ConfigurationError."""
    orders = order_of(asked, order_by)
    options = dataclasses.replace(options, until=until_of(asked, orders[0].by[0], until))
    return History(spark, asked, orders, options)


def options_of(shares: int | None, memory: str) -> Options:
    """The limits that a user gives. Raises ConfigurationError."""
    return Options(checked_number("shares", shares), _bytes(memory))


def _bytes(memory: str) -> int:
    found = _SIZE.fullmatch(memory)
    if found is None:
        raise ConfigurationError(f"memory {memory!r}: expected a size such as '4 GiB'")
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))
