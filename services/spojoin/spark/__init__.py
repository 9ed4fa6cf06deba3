"""Spark: statements over a history, and the results of served queries. Needs `pip install 'spojoin[spark]'`.

`sql` and `join` give exact answers over DataFrames, on as many executors as there are. A row's answer depends only on
the rows in its windows. So a task takes a share of the ordered rows, with the rows before it that windows reach and,
for answers on close, those after it. It joins them as `spojoin run` does, and gives the answers of its share.

`register` gives a session the data source `spojoin`, with which results of services are tables and streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spojoin.errors import ConfigurationError
from spojoin.spark.api import explain, join, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["explain", "join", "register", "sql"]


def register(spark: SparkSession) -> None:
    """Give a session the data source `spojoin`: the results of a served query as rows, each once.

        spojoin.spark.register(spark)
        results = (
            spark.readStream.format("spojoin")
            .option("query", "trades")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .load()
        )
        results.writeStream.option("checkpointLocation", "checkpoint").start("trades")

    Raises ConfigurationError if packages are missing.
    """
    try:
        from spojoin.spark.source import ResultsSource  # noqa: PLC0415  (joins need nothing of Kafka)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("spojoin"):
            raise
        raise ConfigurationError(
            f"the data source spojoin needs {error.name}, which this installation lacks: "
            "pip install 'spojoin[kafka,spark]'"
        ) from error
    spark.dataSource.register(ResultsSource)
