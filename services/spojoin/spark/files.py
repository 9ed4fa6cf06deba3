"""Reads and writes DataFrames, in any format and from any place that Spark knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from spojoin.errors import ConfigurationError
from spojoin.spark.history import HistoryJoin
from spojoin.spark.written import is_known, write_parquet

#: Options of a format without which it would read text where other readers of this package see types.
_TYPED = {
    "csv": {"header": "true", "inferSchema": "true"},
    "json": {"inferTimestamp": "true"},
}
_WRITTEN = {"csv": {"header": "true"}}
#: What becomes of an output that is there, in Spark's words.
MODES = ("error", "overwrite", "append")


def read(spark: SparkSession, path: str, kind: str, options: Mapping[str, str]) -> DataFrame:
    """The rows of a file, a folder or whatever else `path` names; kind: the format, in Spark's words."""
    return spark.read.format(kind).options(**_TYPED.get(kind, {}), **options).load(path)


def write(history: HistoryJoin, path: str, kind: str, mode: str) -> int:
    """Write a history's results, one file a share, in order; returns how many.

    Tasks write Parquet themselves, where Arrow knows the file system; else rows pass to Spark's own writer.
    """
    if kind == "parquet" and is_known(path):
        return write_parquet(history, path, replaces=mode == "overwrite")
    return _write_rows(history.results(), path, kind, mode)


def _write_rows(frame: DataFrame, path: str, kind: str, mode: str) -> int:
    seen = Observation()
    counted = frame.observe(seen, functions.count(functions.lit(1)).alias("rows"))
    counted.write.format(kind).options(**_WRITTEN.get(kind, {})).mode(mode).save(path)
    return int(seen.get["rows"])


def check_output(spark: SparkSession, path: str, mode: str) -> None:
    """Raise ConfigurationError where an output exists that mustn't, before anything is computed."""
    java: Any = spark.sparkContext._jvm  # Hadoop's own view of a path: S3 and HDFS as well as files
    place = java.org.apache.hadoop.fs.Path(path)
    if mode == "error" and place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(place):
        raise exists_already(path)


def check_mode(mode: str) -> None:
    """Raise ConfigurationError for what isn't one of MODES."""
    if mode not in MODES:
        raise ConfigurationError(f"--mode {mode}: expected one of {', '.join(MODES)}")


def exists_already(path: str) -> ConfigurationError:
    """What is wrong with an output that is there."""
    return ConfigurationError(f"{path} exists already: name another place, or let --mode overwrite it, or append to it")
