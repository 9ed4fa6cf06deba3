"""The completeness checker: recomputes a join from its input topics and compares the results topic with it.

It shares nothing with the product but the query's parser and model: messages are read by `rows`, the order is derived
by `ordering`, the join is a nested loop in NumPy (`nested_loop`), and results are read as plain Arrow (`results`).
Spark reads the topics, parses rows and runs blocks of probes under `mapInArrow` on all cores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from loadgen import ordering, rows
from loadgen.nested_loop import NestedLoop, Tuples
from loadgen.ordering import Ordered, Place, StreamRows
from loadgen.results import Message, Pairs, accept
from loadgen.spark import Kafka
from loadgen.verdict import (
    Bitmaps,
    Counts,
    Tally,
    Verdict,
    compare_bitmaps,
    compare_counts,
    compare_pairs,
    sorted_pairs,
)
from spojoin.protocol.topology import Topic, dead_letter_topic, input_topic, topic_name
from spojoin.query.model import Output, Query, Stream

I64 = NDArray[np.int64]

#: Probes of a block: some 20 ms of work at least, so that Spark's part doesn't show; enough blocks to share evenly.
BLOCK_PROBES = 2048
#: Offset ranges that a topic is split into for parsing.
READ_TASKS = 8

_LETTER = "spojoin-"  # how headers of dead letters begin
_SPARK_TYPES = {pa.int32(): "int", pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
_TALLY = "matches long, rows_expected long, rows_right long, false_positives long, first long, words string"
_TALLY_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("matches", "rows_expected", "rows_right", "false_positives", "first")]
    + [("words", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Topics:
    """Where a query's messages are; by default where the services keep them.

    csv_columns: by stream, the fields of a CSV line in order; default the schema's, then time, then key
    """

    kafka: Kafka
    inputs: Mapping[str, str] = field(default_factory=dict)
    results: str | None = None
    csv_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def input_of(self, stream: Stream) -> str:
        """The input topic of a stream."""
        return self.inputs.get(stream.name, input_topic(stream.name))

    def results_of(self, query: Query) -> str:
        """The topic of a query's results."""
        return self.results or topic_name(query.name, Topic.RESULTS)

    def columns_of(self, stream: Stream) -> list[str]:
        """The fields of a CSV line of a stream."""
        named = [*stream.schema, *(name for name in (stream.time, stream.key) if name is not None)]
        return list(self.csv_columns.get(stream.name, dict.fromkeys(named)))


def check(spark: SparkSession, query: Query, topics: Topics, *, sample: int | None = None, seed: int = 0) -> Verdict:
    """Check all that is in the topics: every probe, or `sample` of them drawn by `seed`.

    The services must be at rest: what they have not yet answered counts as missing.
    """
    verdict = Verdict(query.name)
    streams = [_stream_rows(spark, query, stream, topics) for stream in query.streams]
    streams = _settle_rejects(
        streams, [_dead_letters(spark, stream, topics) for stream in query.streams], query, verdict
    )
    accepted = accept(_messages(spark, topics.kafka, topics.results_of(query)))
    verdict.resent = accepted.resent
    if accepted.gap is not None:
        verdict.differs(accepted.gap)
    return judge(query, streams, accepted.rows, verdict, _spark_runner(spark), sample=sample, seed=seed)


# --- judging, without Kafka -------------------------------------------------------------------------------------------

Reported = Counts | Pairs | Bitmaps
#: Compares blocks of probes: (query, tuples, reported, blocks of seqs) -> tallies in any order.
Runner = Callable[[Query, Tuples, Reported, list[I64]], Iterable[Tally]]


def run_here(query: Query, tuples: Tuples, reported: Reported, blocks: list[I64]) -> Iterator[Tally]:
    """A Runner in this process."""
    loop = NestedLoop(query, tuples)
    for seqs in blocks:
        yield _compare(query, loop, reported, seqs)


def judge(
    query: Query,
    streams: Sequence[StreamRows],
    reported: pa.Table,
    verdict: Verdict,
    runner: Runner = run_here,
    *,
    sample: int | None = None,
    seed: int = 0,
) -> Verdict:
    """Compare the result rows `reported`, in their order, with the join of `streams`."""
    verdict.rejected = ordering.rejected_counts(query, streams)
    if query.output is not Output.PAIRS:
        reported = _one_row_a_seq(reported, verdict)
    else:
        _check_pair_order(reported, verdict)
    if ordering.is_by_time(query):
        ordered = ordering.by_time(streams)
    else:
        ordered = ordering.by_arrival(query, streams, reported, verdict)
    verdict.tuples = len(ordered.stream)
    _check_names(query, ordered, streams, reported, verdict)
    claims = _claims(query, ordered, reported, verdict)
    seqs = _probes(verdict.tuples, sample, seed)
    verdict.probes_checked = len(seqs)
    blocks = [seqs[at : at + BLOCK_PROBES] for at in range(0, len(seqs), BLOCK_PROBES)]
    _sum_up(runner(query, ordered.tuples(query, streams), claims, blocks), verdict)
    return verdict


def _compare(query: Query, loop: NestedLoop, reported: Reported, seqs: I64) -> Tally:
    if isinstance(reported, Counts):
        return compare_counts(query, loop, reported, seqs)
    if isinstance(reported, Bitmaps):
        return compare_bitmaps(query, loop, reported, seqs)
    return compare_pairs(query, loop, reported, seqs)


def _probes(tuples: int, sample: int | None, seed: int) -> I64:
    if sample is None or sample >= tuples:
        return np.arange(tuples, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).choice(tuples, sample, replace=False)).astype(np.int64)


def _sum_up(tallies: Iterable[Tally], verdict: Verdict) -> None:
    first: tuple[int, str] | None = None
    for tally in tallies:
        verdict.matches += tally.matches
        verdict.rows_expected += tally.rows_expected
        verdict.rows_right += tally.rows_right
        verdict.false_positives += tally.false_positives
        if tally.first >= 0 and (first is None or tally.first < first[0]):
            first = tally.first, tally.words
    if first is not None:
        verdict.differs(first[1])


def _one_row_a_seq(reported: pa.Table, verdict: Verdict) -> pa.Table:
    """Rows ascending by seq, each once; what was not so goes to the verdict."""
    if reported.num_rows == 0:
        return reported
    seq = reported["seq"].to_numpy()
    _, first = np.unique(seq, return_index=True)
    again = len(seq) - len(first)
    backwards = np.flatnonzero(np.diff(seq[np.sort(first)]) < 0)
    verdict.duplicates += again
    verdict.misordered += len(backwards)
    if again:
        doubled = np.setdiff1d(np.arange(len(seq)), first)[0]
        verdict.differs(f"seq {seq[doubled]} is reported again in result row {doubled}")
    if len(backwards):
        verdict.differs(f"result rows run backwards after seq {seq[np.sort(first)][backwards[0]]}")
    return reported.take(first)


def _check_pair_order(reported: pa.Table, verdict: Verdict) -> None:
    if reported.num_rows < 2:
        return
    columns = [reported[name].to_numpy() for name in ("probe_seq", "left_seq", "right_seq")]
    order = np.lexsort(columns[::-1])
    wrong = np.flatnonzero(np.logical_or.reduce([column[order] != column for column in columns]))
    verdict.misordered += len(wrong)
    if len(wrong):
        found = tuple(int(column[wrong[0]]) for column in columns)
        verdict.differs(f"result row {wrong[0]}, {found}, is out of the order (probe_seq, left_seq, right_seq)")


def _claims(query: Query, ordered: Ordered, reported: pa.Table, verdict: Verdict) -> Reported:
    """The reported rows as the comparison wants them; rows of seqs that don't exist are false."""
    n = len(ordered.stream)
    if query.output is Output.COUNT:
        outside = reported.filter(pc.greater_equal(reported["seq"], n)) if reported.num_rows else reported
        _note_outside(outside.num_rows, n, verdict)
        _check_sums(query, reported, verdict)
        return Counts.of(query, reported, ordered.stream)
    pairs, again = sorted_pairs(query, reported)
    verdict.duplicates += again
    if again:
        verdict.differs(f"{again} pairs are reported more than once")
    inside = np.logical_and.reduce([(c >= 0) & (c < n) for c in (pairs.probe, pairs.partner)])
    _note_outside(int((~inside).sum()), n, verdict)
    pairs = Pairs(*(column[inside] for column in pairs))
    return pairs if query.output is Output.PAIRS else Bitmaps(pairs, _present(reported, n, verdict))


def _present(reported: pa.Table, tuples: int, verdict: Verdict) -> NDArray[np.bool_]:
    """Which seqs have a row."""
    present = np.zeros(tuples, np.bool_)
    if reported.num_rows:
        seq = reported["seq"].to_numpy()
        _note_outside(int((seq >= tuples).sum()), tuples, verdict)
        present[seq[seq < tuples]] = True
    return present


def _check_sums(query: Query, reported: pa.Table, verdict: Verdict) -> None:
    if not query.is_self or reported.num_rows == 0:
        return
    seq, matches, left, right = (reported[c].to_numpy() for c in ("seq", "matches", "as_left", "as_right"))
    wrong = np.flatnonzero(matches != left + right)
    if len(wrong):
        at = wrong[0]
        verdict.differs(f"probe {seq[at]}: {matches[at]} matches are not the sum of {left[at]} and {right[at]}")


def _note_outside(count: int, tuples: int, verdict: Verdict) -> None:
    verdict.false_positives += count
    if count:
        verdict.differs(f"{count} result rows name a seq beyond the last tuple, {tuples - 1}")


def _check_names(
    query: Query, ordered: Ordered, streams: Sequence[StreamRows], reported: pa.Table, verdict: Verdict
) -> None:
    """The streams and keys that results give back must be those of the seqs that they name."""
    if reported.num_rows == 0 or query.output is Output.BITMAP:
        return
    names = pa.array([stream.name for stream in query.streams]).take(pa.array(ordered.stream))
    keys = pa.array(ordered.keys(streams), pa.string())
    pairs = [("seq", "stream", names), ("seq", "key", keys)]
    if query.output is Output.PAIRS:
        pairs = [("left_seq", "left_key", keys), ("right_seq", "right_key", keys)]
    for seq, name, expected in pairs:
        _check_column(reported, seq, name, expected, verdict)


def _check_column(reported: pa.Table, seq: str, name: str, expected: pa.Array, verdict: Verdict) -> None:
    inside = reported.filter(pc.less(reported[seq], len(expected)))
    found = inside[name].cast(pa.string()).combine_chunks()
    wanted = expected.take(inside[seq].combine_chunks())
    wrong = pc.invert(pc.fill_null(pc.equal(found, wanted), False)).to_numpy(zero_copy_only=False)
    verdict.misordered += int(wrong.sum())
    if wrong.any():
        at = int(np.argmax(wrong))
        verdict.differs(f"{seq} {inside[seq][at]} is reported with {name} {found[at]}; expected {wanted[at]}")


# --- refused rows -----------------------------------------------------------------------------------------------------


def _settle_rejects(
    streams: Sequence[StreamRows], letters: Sequence[Mapping[Place, str]], query: Query, verdict: Verdict
) -> list[StreamRows]:
    """Find late rows, and compare all refused ones with the dead letters."""
    if ordering.is_by_time(query):
        streams = [rows_.without(ordering.late_rows(rows_, query.lateness_us), "late") for rows_ in streams]
        streams = [_without_passed(rows_, dead, streams) for rows_, dead in zip(streams, letters, strict=True)]
    for stream, rows_, dead in zip(query.streams, streams, letters, strict=True):
        compare_rejects(stream.name, rows_, dead, verdict)
    return list(streams)


def _without_passed(rows_: StreamRows, dead: Mapping[Place, str], streams: Sequence[StreamRows]) -> StreamRows:
    """Rows that came when the merge had passed their time without them, their input being taken for idle.

    That depends on the clock, so only the dead letters tell; but some tuple must follow each such row in time.
    """
    latest = max((int(r.times_us.max()) for r in streams if r.times_us is not None and len(r)), default=0)
    assert rows_.times_us is not None, "event-time order needs times"
    places = zip(*(column.tolist() for column in rows_.places), strict=True)
    passed = [
        dead.get(place) == "late" and time <= latest
        for place, time in zip(places, rows_.times_us.tolist(), strict=True)
    ]
    return rows_.without(np.array(passed, np.bool_), "late")


def compare_rejects(stream: str, rows_: StreamRows, dead: Mapping[Place, str], verdict: Verdict) -> None:
    """Every refused row has a dead letter with a reason that applies, and no other row has one."""
    for place, reasons in rows_.reasons.items():
        if dead.get(place) not in reasons:
            verdict.rejects_wrong += 1
            said = f"its dead letter says {dead[place]}" if place in dead else "it has no dead letter"
            verdict.differs(f"{stream} {_words(place)} is refused for {' and '.join(sorted(reasons))}, but {said}")
    for place in dead.keys() - rows_.reasons.keys():
        verdict.rejects_wrong += 1
        verdict.differs(f"{stream} {_words(place)} has a dead letter ({dead[place]}) but nothing is wrong with it")


def _words(place: Place) -> str:
    return f"partition {place[0]} offset {place[1]} row {place[2]}"


# --- Kafka through Spark ----------------------------------------------------------------------------------------------


def _read(spark: SparkSession, kafka: Kafka, topic: str, tasks: int = 1) -> DataFrame:
    """All committed records of a topic, if there is such a topic."""
    options = kafka.options() | {
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "minPartitions": str(tasks),
        # By pattern, so that a topic that is not there is empty; Spark looks for a match anywhere in a name.
        "subscribePattern": f"^{re.escape(topic)}$",
    }
    return spark.read.format("kafka").options(**options).load()


def _stream_rows(spark: SparkSession, query: Query, stream: Stream, topics: Topics) -> StreamRows:
    columns, needs_time = topics.columns_of(stream), query.needs_time

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return rows.parse(batches, stream, columns, needs_time)

    messages = _read(spark, topics.kafka, topics.input_of(stream), READ_TASKS)
    messages = messages.where("NOT coalesce(exists(headers, h -> h.key = 'spojoin-heartbeat'), false)")
    messages = messages.select(*rows.MESSAGE)
    schema = ", ".join(f"{f.name} {_SPARK_TYPES[f.type]}" for f in rows.parsed_schema(stream))
    return StreamRows.of(messages.mapInArrow(parse, schema).toArrow(), needs_time)


def _messages(spark: SparkSession, kafka: Kafka, topic: str) -> Iterator[Message]:
    table = _read(spark, kafka, topic).select("partition", "offset", "value", "headers").toArrow()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    for value, headers in zip(table["value"], table["headers"].to_pylist(), strict=True):
        yield Message(_headers(headers), value.as_py() or b"")


def _headers(headers: list[dict[str, Any]] | None) -> dict[str, bytes]:
    return {h["key"]: h["value"] for h in headers or ()}


def _dead_letters(spark: SparkSession, stream: Stream, topics: Topics) -> dict[Place, str]:
    """Reasons by place; a letter that a restart wrote again says the same."""
    letters = _messages(spark, topics.kafka, dead_letter_topic(topics.input_of(stream)))
    return {_place(m.headers): m.headers[_LETTER + "reason"].decode() for m in letters}


def _place(headers: Mapping[str, bytes]) -> Place:
    partition, offset, row = (int(headers[f"{_LETTER}source-{name}"]) for name in ("partition", "offset", "row"))
    return partition, offset, row


def _spark_runner(spark: SparkSession) -> Runner:
    def run(query: Query, tuples: Tuples, reported: Reported, blocks: list[I64]) -> Iterator[Tally]:
        if not blocks:
            return
        shared = spark.sparkContext.broadcast((query, tuples, reported, blocks))

        def compare(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            query, tuples, reported, blocks = shared.value
            loop = NestedLoop(query, tuples)
            for batch in numbers:
                tallies = [_compare(query, loop, reported, blocks[i]) for i in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_pylist([_as_row(tally) for tally in tallies], _TALLY_SCHEMA)

        tasks = min(len(blocks), 4 * spark.sparkContext.defaultParallelism)
        found = spark.range(0, len(blocks), 1, tasks).mapInArrow(compare, _TALLY).toArrow()
        shared.destroy()
        yield from (Tally(**row) for row in found.to_pylist())

    return run


def _as_row(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in _TALLY_SCHEMA.names}
