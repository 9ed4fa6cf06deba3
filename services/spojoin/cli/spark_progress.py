"""A line of progress while Spark works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spojoin.spark.sentences import LOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.5


@contextmanager
def spark_progress(spark: SparkSession, name: str, *, is_quiet: bool) -> Iterator[None]:
    """Shows, while the block runs, how many tasks of Spark's stages are done."""
    if is_quiet:
        yield
        return
    from rich.console import Console  # noqa: PLC0415  (as the commands: what isn't shown isn't imported)

    with Console(stderr=True).status(name) as shown:
        done = threading.Event()

        def look() -> None:
            with suppress(*LOST):  # the work itself meets that, and says so
                while not done.wait(LOOK_S):
                    shown.update(f"{name}: {_tasks(spark)}")

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            done.set()
            looking.join()


def _tasks(spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    found = [stage for stage in stages if stage is not None]
    done, wanted = sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
    return f"{done:,} of {wanted:,} tasks" if found else "planning"
