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
from spojoin.spark.planned import planned
from spojoin.spark.settings import settings_of
from spojoin.spark.until import UntilValue


def sql(
    spark: SparkSession,
    statement: str,
    /,
    *,
    order_by: OrderBy = None,
    time: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    until: UntilValue = None,
    **frames: DataFrame,
) -> DataFrame:
    """The answers of a statement over DataFrames, as `spojoin.sql` gives them over the same rows in order.

        statement = (
            "SELECT l.id, r.id AS other FROM trips AS l JOIN trips AS r ON l.miles > r.miles AND l.fare < r.fare "
            "WINDOW AS (SLIDE INTERVAL '1K' ON '10K')"
        )
        matches = spojoin.spark.sql(spark, statement, trips=spark.read.parquet("trips"), order_by="id")

    The rows are read once at once, to count them; what is returned answers when it is used, in order.

    Args:
        spark: the session.
        statement: one SELECT over two sides, each a DataFrame by its name here.
        order_by: the columns that order the rows, or a dict of them by table. Event time needs none.
        time: the event-time column of all, or of each by name; needed where one has several timestamps.
        limit: the most partners listed of one row.
        until: only rows before this value of the first order column answer: a number, or a time, also as ISO text.
            Later rows are found by those that answer on close.
        frames: the DataFrames, by name.

    Raises ConfigurationError where the statement, a column or the order is wrong, or a window exceeds a task's memory;
    BadData where rows have no place in the order.

    """
    asked = of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return planned(spark, asked, order_by, until, settings_of(spark)).results()


def join(
    left: DataFrame,
    right: DataFrame | None,
    query: Query | PathLike[str] | str,
    /,
    *,
    order_by: OrderBy = None,
    until: UntilValue = None,
) -> DataFrame:
    """The answers of a query, given as in `spojoin.Join`, over a DataFrame for each input; see `sql`.

    right: None, or `left` once more, where the query joins one stream with itself
    """
    asked = of_query(query, (left,) if right is None else (left, right))
    spark = left.sparkSession
    return planned(spark, asked, order_by, until, settings_of(spark)).results()


def explain(
    spark: SparkSession,
    statement: str,
    /,
    *,
    order_by: OrderBy = None,
    time: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    until: UntilValue = None,
    **frames: DataFrame,
) -> str:
    """How `sql` would answer: tasks, rows that are read twice because windows reach them, memory a task.

    The rows are read once, to count them. Arguments and errors are those of `sql`.
    """
    asked = of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return explained(planned(spark, asked, order_by, until, settings_of(spark)))
