"""The functions that users call: `sql`, `join` and `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pyspark.sql import DataFrame, SparkSession

from spojoin.embedded.statements import StatementOptions, times_by_name
from spojoin.model import Query
from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.history import HistoryJoin
from spojoin.spark.history_query import FrameQuery, frame_query, frame_query_of_statement
from spojoin.spark.ordering import OrderBy, input_orders
from spojoin.spark.session import HistorySettings, settings_of
from spojoin.spark.shares import TWICE_ONE_IN
from spojoin.spark.until import UntilValue, until_of


def plan_history(
    spark: SparkSession, asked: FrameQuery, order_by: OrderBy, until: UntilValue, settings: HistorySettings
) -> HistoryJoin:
    """The join over an ordered history; only rows before `until` are answered. Raises ConfigurationError."""
    orders = input_orders(asked, order_by)
    return HistoryJoin(spark, asked, orders, settings, until_of(asked, orders[0].by[0], until))


def explain_history(history: HistoryJoin) -> str:
    """The plan in a few lines."""
    blocks, shares = history.gathered.blocks, history.shares
    rows = blocks.rows_of(0, blocks.answering)
    if not shares:
        return "no rows" if not len(blocks) else "no rows before `until`"
    reads = [blocks.rows_of(share.first, share.last) for share in shares]
    twice = (sum(reads) - rows) / rows
    memory = max(history.division.memory_of(share.first, share.last) for share in shares)
    lines = [
        f"{blocks.rows_of(0, len(blocks)):,} rows in {len(blocks):,} blocks, {_order(history)}{_until(blocks)}",
        f"{len(shares):,} tasks, the largest of {max(reads):,} rows; {twice:.1%} of all rows are read twice, because "
        f"windows reach up to {history.window_rows:,} rows back",
        f"memory a task: up to {memory / 2**20:,.0f} MiB, {history.state_bytes / 2**20:,.0f} of them for full windows",
    ]
    if twice * TWICE_ONE_IN > 1:
        lines.append(f"more than a fifth is read twice: {_why(history)}")
    refused = ", ".join(f"{reason} {count:,}" for reason, count in history.gathered.refused.items())
    return "\n".join(lines + ([f"refused rows, which answer nothing: {refused}"] if refused else []))


def _order(history: HistoryJoin) -> str:
    by = " and ".join(", ".join(order.by) for order in history.orders)
    return f"sorted by {by}" if history.gathered.is_sorted else f"in the order of {by} as they are"


def _until(blocks: HistoryBlocks) -> str:
    numbered = int(blocks.numbered_before[-1])
    return "" if blocks.own == numbered else f"; {blocks.own:,} answer, those before `until`"


def _why(history: HistoryJoin) -> str:
    if history.division.is_asked:
        return "that many shares were asked for"
    if history.division.is_short_of_memory:
        return "a task's memory allows no larger shares; raise spark.spojoin.memory"
    return "a block is the least that is read of a window"


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
    """The answers of a statement over DataFrames: the same that `spojoin.sql` gives for the rows in order.

        statement = (
            "SELECT l.id, r.id AS other FROM trips AS l JOIN trips AS r ON l.miles > r.miles AND l.fare < r.fare "
            "WINDOW AS (SLIDE INTERVAL '1K' ON '10K')"
        )
        matches = spojoin.spark.sql(spark, statement, trips=spark.read.parquet("trips"), order_by="id")

    The call reads the rows once, to count them. The returned DataFrame computes the answers, in order, when it is used.

    Args:
        spark: the session.
        statement: one SELECT over two sides; each side is the name of a DataFrame in `frames`.
        order_by: the columns that order the rows, or a dict of them by table. Not needed with event time.
        time: the event-time column of all tables, or of each table by name; needed if one has several timestamps.
        limit: the most partners that are listed for one row.
        until: only rows before this value of the first order column are answered: a number, or a time, also as ISO
        text. Later rows are only partners of rows that are answered on close.
        frames: the DataFrames, by name.

    Raises ConfigurationError if the statement, a column or the order is wrong, or if a window exceeds a task's
    memory; BadData if rows have no place in the order.

    """
    asked = frame_query_of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return plan_history(spark, asked, order_by, until, settings_of(spark)).results()


def join(
    left: DataFrame,
    right: DataFrame | None,
    query: Query | PathLike[str] | str,
    /,
    *,
    order_by: OrderBy = None,
    until: UntilValue = None,
) -> DataFrame:
    """The answers of a query over one DataFrame for each input; see `sql`.

    query: in any form that `spojoin.Join` takes
    right: None, or `left` once more, if the query joins one stream with itself
    """
    asked = frame_query(query, (left,) if right is None else (left, right))
    spark = left.sparkSession
    return plan_history(spark, asked, order_by, until, settings_of(spark)).results()


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
    """How `sql` would answer: the number of tasks, the rows that windows make it read twice, and the memory per task.

    The rows are read once, to count them. Arguments and errors are those of `sql`.
    """
    asked = frame_query_of_statement(statement, frames, StatementOptions(times_by_name(time), None, limit))
    return explain_history(plan_history(spark, asked, order_by, until, settings_of(spark)))
