"""A query over its input topics as a history on Spark. It gives all result rows if a nested loop takes too long.

The history uses the product's engine, but not its services or readers: `rows` reads the messages and `ordering` derives
the order, as for the nested loop, which also checks a sample.
"""

from __future__ import annotations

import enum
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from loadgen.check import ordering
from loadgen.check.judging import ALL, ProbeSample
from loadgen.check.nested_loop import directions
from loadgen.check.ordered_rows import OrderedOutcome, RowComparison
from loadgen.check.ordering import Ordered, StreamRows
from loadgen.check.results import result_batches
from loadgen.check.rows import history_columns
from loadgen.check.verdict import Verdict
from loadgen.window import window_begin
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import HEADERS, TRACE, EmitOn, Query, Stream

if TYPE_CHECKING:
    from spojoin.spark.history import HistoryJoin

#: The column with a row's place in the total order.
POSITION = "_position"
#: Rows of a row group: enough groups that tasks share them evenly.
GROUP_ROWS = 1 << 18


def compared_pairs(query: Query, inputs: Sequence[StreamRows]) -> int:
    """The approximate number of pairs that a nested loop compares: each row with its window, in both directions."""
    rows = sum(len(each) for each in inputs)
    found = 0
    for direction in directions(query):
        window = query.window_over(direction.target)
        if not window.needs_time:
            found += rows * min(window.length, rows)
            continue
        times = np.sort(np.concatenate([each.times_us for each in inputs if each.times_us is not None]))
        begins = np.searchsorted(times, window_begin(times, window.length, window.slide), "left")
        found += int(np.maximum(np.arange(len(times)) - begins, 0).sum())
    return found


def planned_history(spark: SparkSession, query: Query, inputs: Sequence[StreamRows], folder: Path) -> HistoryJoin:
    """The history of a query over its inputs' accepted rows, written into a folder.

    Raises ConfigurationError, with a sentence, if there can be no history.
    """
    from spojoin.spark.api import plan_history  # noqa: PLC0415
    from spojoin.spark.history_query import frame_query  # noqa: PLC0415  (a check by the nested loop needs none of it)
    from spojoin.spark.session import settings_of  # noqa: PLC0415

    _check_columns(query)
    inputs = ordering.numbered(query, inputs)
    ordered = _order(query, inputs)
    frames, order_by = [], {}
    for number, (stream, rows) in enumerate(zip(query.inputs, inputs, strict=True)):
        path = folder / f"input-{number}.parquet"
        pq.write_table(_in_order(stream, rows, ordered, number), path, row_group_size=GROUP_ROWS)
        frames.append(spark.read.parquet(str(path)))
        order_by[stream.name] = [stream.time or "", POSITION] if ordering.is_by_time(query) else [POSITION]
    return plan_history(spark, frame_query(query, tuple(frames)), order_by, None, settings_of(spark))


def history_batches(history: HistoryJoin, folder: Path) -> Iterator[pa.RecordBatch]:
    """The results of a history, in order; they are written to their own folder first. Raises ConfigurationError."""
    from spojoin.spark.files import write_parquet  # noqa: PLC0415
    from spojoin.spark.session import sentences  # noqa: PLC0415

    with sentences():
        write_parquet(history, str(folder))
    for path in sorted(folder.glob("part-*.parquet")):
        yield from pq.ParquetFile(path).iter_batches()


def _check_columns(query: Query) -> None:
    if query.has_table:
        raise ConfigurationError(
            f"query {query.name!r} joins with a table, of which a history knows one version: expected --loop"
        )
    for stream in query.inputs:
        for name in (HEADERS, TRACE, POSITION):
            if name in history_columns(stream) and (name == POSITION or name not in stream.schema):
                raise ConfigurationError(
                    f"query {query.name!r} reads {stream.name}.{name}, which a history of its topic's rows doesn't have"
                )


def _order(query: Query, inputs: Sequence[StreamRows]) -> Ordered:
    if ordering.is_by_time(query):
        return ordering.by_time(inputs)
    if len(inputs) > 1 or len(np.unique(inputs[0].places[0])) > 1:
        raise ConfigurationError(
            f"query {query.name!r} is in the order of arrival of several inputs or partitions, and a history has one: "
            "expected order: event_time, or one partition"
        )
    rows = len(inputs[0])
    return Ordered(np.zeros(rows, np.int8), np.arange(rows, dtype=np.int64))


def _in_order(stream: Stream, rows: StreamRows, ordered: Ordered, number: int) -> pa.Table:
    """The rows of an input by their place in the total order, with the query's columns under its names."""
    places: NDArray[np.int64] = np.flatnonzero(ordered.stream == number)
    table = rows.table.take(pa.array(ordered.index[places]))
    columns = {name: _column(table, here) for name, here in history_columns(stream).items()}
    return pa.table(columns | {POSITION: pa.array(places, pa.int64())})


def _column(table: pa.Table, here: str) -> pa.ChunkedArray:
    return table[here].cast(pa.timestamp("us")) if here == "time_us" else table[here]


#: If there are more pairs, a history compares every row. A loop that only counts takes four minutes for these on two
#: cores.
LOOP_PAIRS = 2_000_000_000_000
#: The number of probes that the loop recomputes beside a history.
SAMPLE_PROBES = 10_000


class CheckWay(enum.StrEnum):
    """The way to check every result."""

    LOOP = "loop"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """The scope of the check. way: None for the loop, as long as it is quick enough; sample: the loop's probes."""

    sample: ProbeSample = ALL
    way: CheckWay | None = None

    @property
    def may_need_history(self) -> bool:
        """Whether a history may be needed."""
        return self.way is CheckWay.HISTORY or (self.way is None and self.sample.probes is None)

    def needs_history(self, query: Query, inputs: Sequence[StreamRows]) -> bool:
        """Whether a history is needed; for a table only if the user asks for it, since tables have none."""
        if self.way is None and query.has_table:
            return False
        return self.may_need_history and (self.way is CheckWay.HISTORY or compared_pairs(query, inputs) > LOOP_PAIRS)

    def beside_history(self) -> ProbeSample:
        """The sample that the loop checks beside a history."""
        return self.sample if self.sample.probes is not None else ProbeSample(SAMPLE_PROBES, self.sample.seed)


#: Check everything, by the loop as long as it is quick enough.
EVERYTHING = CheckPlan()


@dataclass(frozen=True, slots=True)
class WholeOutcome:
    """A history's findings. refused: why there is no history; None if there is one."""

    rows: OrderedOutcome | None
    refused: str | None = None

    def note(self, verdict: Verdict) -> None:
        """Add the outcome to the verdict, after the loop's findings."""
        verdict.checked = self._words(verdict)
        if self.rows is None:
            return
        found = self.rows
        verdict.history_rows = found.found
        verdict.rows_expected += found.expected
        verdict.rows_right += found.right
        verdict.false_positives += found.surplus
        verdict.misordered += found.misordered
        if found.first is not None:
            verdict.differs(f"a history by Spark: {found.first}")

    def _words(self, verdict: Verdict) -> str:
        probes = f"{verdict.probes_checked:,} of {verdict.tuples:,} probes by a nested loop"
        if self.rows is not None:
            return f"every one of {self.rows.found:,} result rows by a history on Spark, and {probes}"
        return probes if self.refused is None else f"{probes}; no history on Spark: {self.refused}"


#: The default sample.
NO_HISTORY = WholeOutcome(None)


def by_history(
    spark: SparkSession, query: Query, inputs: Sequence[StreamRows], messages: DataFrame, plan: CheckPlan
) -> WholeOutcome:
    """Compare all results in `messages` with the history of the inputs' accepted rows.

    messages: with the columns RESULT_MESSAGE

    Raises ConfigurationError if a history was asked for and is impossible; otherwise the outcome gives the reason.
    """
    with tempfile.TemporaryDirectory(prefix="spojoin-check-") as name:
        folder = Path(name)
        try:
            expected = history_batches(planned_history(spark, query, inputs, folder), folder / "history")
            # services at rest leave rows open that later rows may still join
            goes_on = query.answers.emit is EmitOn.CLOSE
            return WholeOutcome(RowComparison(goes_on=goes_on).compare(expected, result_batches(messages, folder)))
        except (ConfigurationError, BadData) as error:
            if plan.way is CheckWay.HISTORY:
                raise
            return WholeOutcome(None, str(error))
