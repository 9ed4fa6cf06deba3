"""Starts Spark for a backfill: on this machine, or as `spark-submit` has set it up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from spojoin.local.spark import SESSION_SETTINGS, local_spark, started

LOCAL = "local[*]"
_NAME = "spojoin backfill"
#: Set by `spark-submit`, whose own settings then apply.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_LOCAL_SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "32"}


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session of Spark, stopped at the end.

    master: None for all cores of this machine, or what `spark-submit` says where that started this process
    settings: further ones of Spark, by name; they replace those made here

    Raises ConfigurationError where Spark doesn't start.
    """
    spark = _start(_master(master), dict(settings or {}))
    _silence_lost_jvm(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _silence_lost_jvm(spark: SparkSession) -> None:
    """Whoever asks a JVM that has ended gets an error; Spark's server of accumulators prints a traceback besides."""
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None


def is_local(master: str | None) -> bool:
    """Whether a session with this master runs on this machine alone."""
    return (_master(master) or "").startswith("local")


def _master(master: str | None) -> str | None:
    """None where `spark-submit` started this process and says it."""
    return master or (None if _SUBMITTED in os.environ else LOCAL)


def _start(master: str | None, settings: dict[str, str]) -> SparkSession:
    if master is not None and is_local(master):
        return local_spark(_NAME, master, _LOCAL_SETTINGS | settings, log_level="off")
    return started(_NAME, master, SESSION_SETTINGS | settings)
