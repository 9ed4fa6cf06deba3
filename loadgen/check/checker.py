"""The completeness checker: recomputes a join from its input topics and compares the results topic with it.

It shares only the query's parser and model with the product. `rows` reads messages, `ordering` derives the order,
`nested_loop` joins in NumPy, and `results` reads results as plain Arrow. Spark reads the topics, parses rows, evaluates
expressions and runs blocks of probes under `mapInArrow` on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from loadgen.check.history import EVERYTHING, NO_HISTORY, CheckPlan, by_history
from loadgen.check.judging import ProbeSample, Reported, Runner, compare, judge, settle_rejects
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.ordering import StreamRows
from loadgen.check.reading import READ_TASKS, CheckedTopics, dead_letters, messages_of, read_topic, stream_rows
from loadgen.check.results import RESULT_MESSAGE, accept
from loadgen.check.row_check import RowCheck
from loadgen.check.table_order import TableLog, table_log
from loadgen.check.verdict import Tally, Verdict
from spojoin.arrays import I64
from spojoin.model import Output, Query

_TALLY = "matches long, rows_expected long, rows_right long, false_positives long, first long, words string"
_TALLY_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("matches", "rows_expected", "rows_right", "false_positives", "first")]
    + [("words", pa.string())]
)


def check(spark: SparkSession, query: Query, topics: CheckedTopics, plan: CheckPlan = EVERYTHING) -> Verdict:
    """Check the topics: every result row, and every probe or a sample of them.

    The services must be at rest: rows that they have not yet answered count as missing. Raises ConfigurationError if
    the log or the source of a table no longer shows each answer's table version.
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
    """A nested loop's input: accepted rows, messages of results, the choice of probes, and the table's log."""

    streams: Sequence[StreamRows]
    messages: DataFrame
    sample: ProbeSample
    table: TableLog | None


def _inputs(
    spark: SparkSession, query: Query, topics: CheckedTopics, verdict: Verdict, *, for_history: bool
) -> tuple[Sequence[StreamRows], TableLog | None]:
    """The accepted rows of all inputs, a table's last, and the log of the table."""
    table = table_log(spark, query, topics) if query.has_table else None
    of_streams = [stream for stream in query.inputs if stream.table is None]
    streams = [stream_rows(spark, query, stream, topics, for_history=for_history) for stream in of_streams]
    letters = [dead_letters(spark, stream, topics) for stream in of_streams]
    if table is not None:
        streams, letters = [*streams, table.source.rows], [*letters, dict(table.source.letters)]
    return settle_rejects(streams, letters, query, verdict), table


def _looped(spark: SparkSession, query: Query, topics: CheckedTopics, given: _Rows, verdict: Verdict) -> Verdict:
    if query.results.output is Output.ROWS:
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
                yield pa.RecordBatch.from_pylist(
                    [{name: getattr(each, name) for name in _TALLY_SCHEMA.names} for each in tallies], _TALLY_SCHEMA
                )

        tasks = min(len(blocks), 4 * spark.sparkContext.defaultParallelism)
        found = spark.range(0, len(blocks), 1, tasks).mapInArrow(tally, _TALLY).toArrow()
        shared.destroy()
        yield from (Tally(**row) for row in found.to_pylist())

    return run
