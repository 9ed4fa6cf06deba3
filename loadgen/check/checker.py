"""The completeness checker: recomputes a join from its input topics and compares the results topic with it.

It shares nothing with the product but the query's parser and model: messages are read by `rows`, the order is derived
by `ordering`, the join is a nested loop in NumPy (`nested_loop`), and results are read as plain Arrow (`results`).
Spark reads the topics, parses rows, evaluates expressions and runs blocks of probes under `mapInArrow` on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from loadgen.check.judging import ALL, ProbeSample, Reported, Runner, compare, judge, settle_rejects
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.reading import READ_TASKS, CheckedTopics, dead_letters, messages_of, read_topic, stream_rows
from loadgen.check.results import accept
from loadgen.check.row_check import RESULT_MESSAGE, RowCheck
from loadgen.check.table_reading import table_log
from loadgen.check.verdict import Tally, Verdict
from spojoin.model import Output, Query

I64 = NDArray[np.int64]

_TALLY = "matches long, rows_expected long, rows_right long, false_positives long, first long, words string"
_TALLY_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("matches", "rows_expected", "rows_right", "false_positives", "first")]
    + [("words", pa.string())]
)


def check(spark: SparkSession, query: Query, topics: CheckedTopics, sample: ProbeSample = ALL) -> Verdict:
    """Check all that is in the topics: every probe, or a sample of them.

    The services must be at rest: what they have not yet answered counts as missing. Raises ConfigurationError where
    the log, or the source, of a table no longer tells which version of it rows were answered about.
    """
    verdict = Verdict(query.name)
    if query.output is Output.ROWS:
        return _check_rows(spark, query, topics, verdict, sample)
    streams = [stream_rows(spark, query, stream, topics) for stream in query.inputs]
    streams = settle_rejects(streams, [dead_letters(spark, stream, topics) for stream in query.inputs], query, verdict)
    accepted = accept(messages_of(spark, topics.kafka, topics.results_of(query)))
    verdict.resent = accepted.resent
    if accepted.gap is not None:
        verdict.differs(accepted.gap)
    return judge(query, streams, accepted.rows, verdict, _spark_runner(spark), sample)


def _check_rows(
    spark: SparkSession, query: Query, topics: CheckedTopics, verdict: Verdict, sample: ProbeSample
) -> Verdict:
    table = table_log(spark, query, topics) if query.has_table else None
    of_streams = [stream for stream in query.inputs if stream.table is None]
    streams = [stream_rows(spark, query, stream, topics) for stream in of_streams]
    letters = [dead_letters(spark, stream, topics) for stream in of_streams]
    if table is not None:
        streams, letters = [*streams, table.source.rows], [*letters, dict(table.source.letters)]
    streams = settle_rejects(streams, letters, query, verdict)
    messages = read_topic(spark, topics.kafka, topics.results_of(query), READ_TASKS).select(*RESULT_MESSAGE)
    return RowCheck(spark, query, messages, verdict).run(streams, sample, table)


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
