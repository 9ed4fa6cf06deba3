"""From what users say to a history that can be explained and answered."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spojoin.spark.asked import FrameQuery
from spojoin.spark.history import HistoryJoin
from spojoin.spark.ordering import OrderBy, order_of
from spojoin.spark.settings import HistorySettings
from spojoin.spark.until import UntilValue, until_of


def planned(
    spark: SparkSession, asked: FrameQuery, order_by: OrderBy, until: UntilValue, settings: HistorySettings
) -> HistoryJoin:
    """The history of what is asked, in an order, answered before `until`. Raises ConfigurationError."""
    orders = order_of(asked, order_by)
    return HistoryJoin(spark, asked, orders, settings, until_of(asked, orders[0].by[0], until))
