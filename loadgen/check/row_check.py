"""Checks an output of rows: Spark evaluates every filter and select list again, over the pairs of the nested loop.

A record of the results answers a span of probes, and must hold exactly the rows of their pairs, in the order of (probe,
left, right). If rows ask, it answers a span of them, and must hold exactly their answers. Spans are compared by the
digest of their rows, and row by row if digests differ.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check import ordering
from loadgen.check.asked_rows import AnsweredRows, AskedRows, AskedSource, FullSource, answered
from loadgen.check.judging import ALL, BLOCK_PROBES, ProbeSample
from loadgen.check.ordered_rows import rows_of
from loadgen.check.ordering import Ordered, StreamRows
from loadgen.check.output_digest import rows_sha256
from loadgen.check.pair_rows import PairRows, PairSource, Span, SpanRows, select_schema
from loadgen.check.results import (
    BEGIN,
    FRAME,
    NUMBERS,
    RESULT_MESSAGE,
    RecordChain,
    ResultRecord,
    said_by,
    sorted_by_log,
)
from loadgen.check.table_order import TableLog, ordered_by_log
from loadgen.check.verdict import Verdict
from spojoin.model import Query

#: The number of differing spans to compare row by row; the others only count as different.
COMPARED_ROWS = 16

_READ_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64())]
    + [(name, pa.int64()) for name in NUMBERS]
    + [("rows", pa.int64()), ("digest", pa.string())]
)
Spans = list[tuple[int, Span]]


class Answer(NamedTuple):
    """The results' content about a span.

    offset: of the record, None if there is no record
    """

    span: Span
    offset: int | None
    found: SpanRows


class RowCheck:
    """One check of the results in `messages`, which have the columns RESULT_MESSAGE."""

    def __init__(self, spark: SparkSession, query: Query, messages: DataFrame, verdict: Verdict) -> None:
        if query.results.limit is not None:
            raise ValueError(f"query {query.name}: the checker doesn't know a limit of rows")
        self._spark, self._query, self._messages, self._verdict = spark, query, messages, verdict

    def run(self, inputs: Sequence[StreamRows], sample: ProbeSample = ALL, table: TableLog | None = None) -> Verdict:
        """Compare the results with the join of the inputs' accepted rows; table: the table's log."""
        verdict, query = self._verdict, self._query
        verdict.rejected = ordering.rejected_counts(query, inputs)
        inputs = ordering.numbered(query, inputs)
        if table is not None:
            ordered, rights = self._by_log(inputs[0], table)
            inputs = [inputs[0], rights]
        elif ordering.is_by_time(query):
            ordered = ordering.by_time(inputs)
        else:
            ordered = ordering.by_arrival(query, inputs, pa.table({}), verdict)
        verdict.tuples = ordered.tuples_count
        source = _source_of(query).of(query, ordered, inputs)
        everything = AnsweredRows(verdict.tuples, verdict.tuples)
        answers = self._answers(answered(query, source.tuples) if query.asks else everything)
        chosen = _chosen(answers, sample)
        verdict.probes_checked = sum(answers[number].span.end - answers[number].span.first for number in chosen)
        job = (AskedRows if query.asks else PairRows)(self._spark, source)
        try:
            self._compare(job, answers, job.digests(_groups([(number, answers[number].span) for number in chosen])))
        finally:
            job.close()
        return verdict

    def _by_log(self, lefts: StreamRows, table: TableLog) -> tuple[Ordered, StreamRows]:
        if len(np.unique(lefts.places[0])) > 1:
            raise ValueError(
                f"query {self._query.name}: the order of arrival of several partitions doesn't show in its results: "
                "check it with one partition of the stream's topic"
            )
        return ordered_by_log(self._query, table, len(lefts), self._verdict)

    def _answers(self, expected: AnsweredRows) -> list[Answer]:
        """The answers in the result records, in order, followed by spans without a record."""
        chain, answers = RecordChain(), []
        read = self._messages.mapInArrow(_read, from_arrow_schema(_READ_SCHEMA)).toArrow()
        for record in sorted_by_log(read, FRAME, BEGIN).to_pylist():
            first = chain.tuples
            if chain.take(ResultRecord({name: b"%d" % record[name] for name in NUMBERS}, b"")):
                found = SpanRows(record["rows"], record["digest"])
                answers.append(Answer(Span(first, chain.tuples), record["offset"], found))
        self._verdict.resent = chain.resent
        if chain.gap is not None:
            self._verdict.differs(chain.gap)
        if chain.tuples > expected.most:
            self._verdict.differs(f"{chain.tuples} tuples are answered; expected {expected.most}")
        cuts = [*range(chain.tuples, expected.least, BLOCK_PROBES), expected.least]
        nothing = SpanRows(0, "")
        return answers + [Answer(Span(first, end), None, nothing) for first, end in pairwise(cuts)]

    def _compare(self, job: PairRows, answers: Sequence[Answer], expected: Mapping[int, SpanRows]) -> None:
        verdict = self._verdict
        verdict.rows_expected = verdict.matches = sum(digest.rows for digest in expected.values())
        differing = [number for number, digest in sorted(expected.items()) if answers[number].found != digest]
        verdict.rows_right = verdict.rows_expected - sum(expected[number].rows for number in differing)
        for number in differing[:COMPARED_ROWS]:
            self._compare_rows(job.rows(number, answers[number].span), answers[number])
        for number in differing[COMPARED_ROWS:]:
            verdict.false_positives += max(0, answers[number].found.rows - expected[number].rows)

    def _compare_rows(self, expected: pa.Table, answer: Answer) -> None:
        verdict, span = self._verdict, answer.span
        probes = f"probes {span.first} to {span.end - 1}"
        if answer.offset is None:
            verdict.differs(f"{probes}: no results")
            return
        found = self._record(answer.offset)
        wanted = select_schema(self._query)
        if [(f.name, _decoded(f.type)) for f in found.schema] != [(f.name, f.type) for f in wanted]:
            verdict.differs(f"{probes}: the columns are {_words(found.schema)}; expected {_words(wanted)}")
        want, got = rows_of(expected), rows_of(found)
        right, surplus = Counter(want) & Counter(got), Counter(got) - Counter(want)
        again = sum(count for row, count in surplus.items() if row in right)
        verdict.rows_right += right.total()
        verdict.duplicates += again
        verdict.false_positives += surplus.total() - again
        if len(want) == len(got) == right.total():
            verdict.misordered += sum(a != b for a, b in zip(want, got, strict=True))
        at = next((i for i, pair in enumerate(zip(want, got, strict=False)) if pair[0] != pair[1]), len(want))
        verdict.differs(f"{probes}: row {at} is {_at(got, at)}; expected {_at(want, at)}")

    def _record(self, offset: int) -> pa.Table:
        """The rows of a result record."""
        ((value,),) = self._messages.where(f"offset = {offset}").select("value").collect()
        return pa.ipc.open_stream(io.BytesIO(value)).read_all()


def _source_of(query: Query) -> type[PairSource]:
    if query.both_ask:
        return FullSource
    return AskedSource if query.asks else PairSource


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each message's place, its headers' numbers, and the digest of its rows."""
    for batch in batches:
        read = []
        for partition, offset, value, headers in zip(*(batch[name] for name in RESULT_MESSAGE), strict=True):
            said = said_by(headers.as_py())
            rows = pa.ipc.open_stream(value.as_buffer()).read_all()
            numbers = {name: int(said[name]) for name in NUMBERS}
            place = {"partition": partition.as_py(), "offset": offset.as_py()}
            read.append(place | numbers | {"rows": rows.num_rows, "digest": rows_sha256(rows)})
        yield pa.RecordBatch.from_pylist(read, _READ_SCHEMA)


def _chosen(answers: Sequence[Answer], sample: ProbeSample) -> list[int]:
    """The numbers of the answers to check, ascending: all, or enough for the sample's probes.

    The last answer is always included, because only it shows where answers end.
    """
    if sample.probes is None:
        return list(range(len(answers)))
    drawn = np.random.default_rng(sample.seed).permutation(len(answers))
    probes = np.cumsum([answers[number].span.end - answers[number].span.first for number in drawn])
    return sorted({*drawn[: int(np.searchsorted(probes, sample.probes)) + 1].tolist(), *range(len(answers))[-1:]})


def _groups(spans: Spans) -> list[Spans]:
    """Groups of consecutive spans with at least BLOCK_PROBES probes, if there are so many."""
    groups: list[Spans] = []
    for number, span in spans:
        last = groups[-1] if groups else []
        if last and last[-1][0] + 1 == number and last[-1][1].end - last[0][1].first < BLOCK_PROBES:
            last.append((number, span))
        else:
            groups.append([(number, span)])
    return groups


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_decoded(field.type)}" for field in schema)


def _at(rows: Sequence[object], at: int) -> object:
    return rows[at] if at < len(rows) else "missing"
