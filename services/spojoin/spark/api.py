"""What users call: `sql`, `join` and `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pyspark.sql import DataFrame, SparkSession

from spojoin.embedded.statements import StatementOptions, times_by_name
from spojoin.model import Query
from spojoin.spark.asked import of_query, of_statement
from spojoin.spark.explained import explained
from spojoin.spark.ordering import OrderBy
from spojoin.spark.planned import options_of, planned
from spojoin.spark.until import UntilValue


def sql(
    spark: SparkSession,
    statement: str,
    /,
    *,
    order_by: OrderBy = None,
    time: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    shares: int | None = None,
    memory: str = "2 GiB",
    until: UntilValue = None,
    **frames: DataFrame,
) -> DataFrame:
    """The answers of a statement over DataFrames, as `spojoin.sql` gives them over the same rows in order.

        results = spojoin.spark.sql(
            spark,
            "SELECT l.id, r.id AS other FROM trips AS l JOIN trips AS r ON l.miles < r.miles AND l.fare > r.fare "
            "WINDOW AS (SLIDE INTERVAL '1K' ON '10K')",
            trips=spark.read.parquet("trips"),
            order_by="id",
        )
        results.write.parquet("matches")

    The rows are read once at once, to count them; the DataFrame that is returned answers when it is used. Its
    partitions are in order, and so is `collect()`.

    Args:
        spark: the session.
        statement: one SELECT over two sides, each a DataFrame by its name here.
        order_by: the columns that order the rows, or a dict of them by table: a sequence column, of whole numbers that
            are each there once; or any other ones, ties by all columns that the statement reads. Rows in the order of
            event time need none; columns behind it decide ties.
        time: the event-time column of all, or of each by name; needed where one has several timestamps.
        limit: the most partners listed of one row.
        shares: in how many parts rows are answered; by default as many as pay.
        memory: what a task may take, such as "4 GiB".
        until: answers only rows before this value of the first order column: a number, or a time, also as ISO text.
            Later rows are found by those that answer on close.
        frames: the DataFrames, by name.

    Raises ConfigurationError where the statement, a column or the order is wrong, or a window exceeds a task's memory;
    BadData where rows have no place in the order.

    """
    asked = of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return planned(spark, asked, order_by, until, options_of(shares, memory)).results()


def join(
    left: DataFrame,
    right: DataFrame | None,
    query: Query | PathLike[str] | str,
    /,
    *,
    order_by: OrderBy = None,
    shares: int | None = None,
    memory: str = "2 GiB",
    until: UntilValue = None,
) -> DataFrame:
    """The answers of a query, given as in `spojoin.Join`, over a DataFrame for each input; see `sql`.

    right: None, or `left` once more, where the query joins one stream with itself
    """
    frames = (left,) if right is None else (left, right)
    asked = of_query(query, frames)
    return planned(left.sparkSession, asked, order_by, until, options_of(shares, memory)).results()


def explain(
    spark: SparkSession,
    statement: str,
    /,
    *,
    order_by: OrderBy = None,
    time: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    shares: int | None = None,
    memory: str = "2 GiB",
    until: UntilValue = None,
    **frames: DataFrame,
) -> str:
    """How `sql` would answer: shares, rows that are read twice because windows reach them, memory a task.

    The rows are read once, to count them. Arguments and errors are those of `sql`.
    """
    asked = of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return explained(planned(spark, asked, order_by, until, options_of(shares, memory)))
