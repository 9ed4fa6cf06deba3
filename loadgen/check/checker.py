"""The completeness checker: recomputes a join from its input topics and compares the results topic with it.

It shares nothing with the product but the query's parser and model: messages are read by `rows`, the order is derived
by `ordering`, the join is a nested loop in NumPy (`nested_loop`), and results are read as plain Arrow (`results`).
Spark reads the topics, parses rows, evaluates expressions and runs blocks of probes under `mapInArrow` on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from loadgen.check.judging import ProbeSample, Reported, Runner, compare, judge, settle_rejects
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.ordering import StreamRows
from loadgen.check.reading import READ_TASKS, CheckedTopics, dead_letters, messages_of, read_topic, stream_rows
from loadgen.check.result_files import RESULT_MESSAGE
from loadgen.check.results import accept
from loadgen.check.row_check import RowCheck
from loadgen.check.table_order import TableLog
from loadgen.check.table_reading import table_log
from loadgen.check.verdict import Tally, Verdict
from loadgen.check.whole import EVERYTHING, NO_HISTORY, CheckPlan, by_history
from spojoin.model import Output, Query

I64 = NDArray[np.int64]

_TALLY = "matches long, rows_expected long, rows_right long, false_positives long, first long, words string"
_TALLY_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("matches", "rows_expected", "rows_right", "false_positives", "first")]
    + [("words", pa.string())]
)


def check(spark: SparkSession, query: Query, topics: CheckedTopics, plan: CheckPlan = EVERYTHING) -> Verdict:
    """Check all that is in the topics: every probe, or a sample of them, beside every result row.

    The services must be at rest: what they have not yet answered counts as missing. Raises ConfigurationError where
    the log, or the source, of a table no longer tells which version of it rows were answered about.
    """
    verdict = Verdict(query.name)
    streams, table = _inputs(spark, query, topics, verdict, for_history=plan.may_need_history)
    messages = read_topic(spark, topics.kafka, topics.results_of(query), READ_TASKS).select(*RESULT_MESSAGE)
    whole = by_history(spark, query, streams, messages, plan) if plan.needs_history(query, streams) else NO_HISTORY
    given = _Rows(streams, messages, plan.sample if whole.rows is None else plan.beside_history(), table)
    verdict = _looped(spark, query, topics, given, verdict)
    whole.note(verdict)
    return verdict


class _Rows(NamedTuple):
    """What a nested loop compares: rows that were not refused, messages of results, which probes; the table's log."""

    streams: Sequence[StreamRows]
    messages: DataFrame
    sample: ProbeSample
    table: TableLog | None


def _inputs(
    spark: SparkSession, query: Query, topics: CheckedTopics, verdict: Verdict, *, for_history: bool
) -> tuple[Sequence[StreamRows], TableLog | None]:
    """The rows of all inputs that were not refused, a table's last, and what tells of the table."""
    table = table_log(spark, query, topics) if query.has_table else None
    of_streams = [stream for stream in query.inputs if stream.table is None]
    streams = [stream_rows(spark, query, stream, topics, for_history=for_history) for stream in of_streams]
    letters = [dead_letters(spark, stream, topics) for stream in of_streams]
    if table is not None:
        streams, letters = [*streams, table.source.rows], [*letters, dict(table.source.letters)]
    return settle_rejects(streams, letters, query, verdict), table


def _looped(spark: SparkSession, query: Query, topics: CheckedTopics, given: _Rows, verdict: Verdict) -> Verdict:
    if query.output is Output.ROWS:
        return RowCheck(spark, query, given.messages, verdict).run(given.streams, given.sample, given.table)
    accepted = accept(messages_of(spark, topics.kafka, topics.results_of(query)))
    verdict.resent = accepted.resent
    if accepted.gap is not None:
        verdict.differs(accepted.gap)
    return judge(query, given.streams, accepted.rows, verdict, _spark_runner(spark), given.sample)


def _spark_runner(spark: SparkSession) -> Runner:
    def run(query: Query, tuples: Tuples, reported: Reported, blocks: list[I64]) -> Iterator[Tally]:
        if not blocks:
            return
        shared = spark.sparkContext.broadcast((query, tuples, reported, blocks))

        def tally(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            query, tuples, reported, blocks = shared.value
            loop = NestedLoop(query, tuples)
            for batch in numbers:
                tallies = [compare(query, loop, reported, blocks[i]) for i in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_pylist([_as_row(each) for each in tallies], _TALLY_SCHEMA)

        tasks = min(len(blocks), 4 * spark.sparkContext.defaultParallelism)
        found = spark.range(0, len(blocks), 1, tasks).mapInArrow(tally, _TALLY).toArrow()
        shared.destroy()
        yield from (Tally(**row) for row in found.to_pylist())

    return run


def _as_row(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in _TALLY_SCHEMA.names}
