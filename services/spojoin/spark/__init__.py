"""A statement over a history, by Spark: exact, on as many executors as there are. Needs `pip install 'spojoin[spark]'`.

A row's answer depends on the rows of its windows alone. So a task takes a share of the rows in their order, with those
before it that windows reach and, for answers on close, those behind it; joins them as `spojoin run` does; and gives the
answers of its share.
"""

from __future__ import annotations

from spojoin.spark.api import explain, join, sql

__all__ = ["explain", "join", "sql"]
