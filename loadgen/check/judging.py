"""Judging a query's results against its input rows by the join's definition, without Kafka or Spark.

`ordering` derives the order, and `nested_loop` joins in NumPy. The query's model is the only code of the product here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.check import ordering
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.ordering import Ordered, Place, StreamRows
from loadgen.check.output_digest import expected_sha256, reported_sha256
from loadgen.check.results import Pairs
from loadgen.check.verdict import (
    Bitmaps,
    Counts,
    Tally,
    Verdict,
    compare_bitmaps,
    compare_counts,
    compare_pairs,
    sorted_pairs,
)
from spojoin.arrays import I64
from spojoin.model import Output, Query

#: Probes of a block: at least 20 ms of work, so that Spark's overhead is small, and enough blocks to share evenly.
BLOCK_PROBES = 2048
#: The prefix of the headers of dead letters.
LETTER = "spojoin-"

Reported = Counts | Pairs | Bitmaps
#: Compares blocks of probes: (query, tuples, reported, blocks of seqs) -> tallies in any order.
Runner = Callable[[Query, Tuples, Reported, list[I64]], Iterable[Tally]]


def run_here(query: Query, tuples: Tuples, reported: Reported, blocks: list[I64]) -> Iterator[Tally]:
    """A Runner in this process."""
    loop = NestedLoop(query, tuples)
    for seqs in blocks:
        yield compare(query, loop, reported, seqs)


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """The probes to recompute: `probes` of them, which `seed` chooses; all if `probes` is None."""

    probes: int | None = None
    seed: int = 0

    def of(self, tuples: int) -> I64:
        """The seqs of the chosen probes of all `tuples`, int64 (n,), ascending."""
        if self.probes is None or self.probes >= tuples:
            return np.arange(tuples, dtype=np.int64)
        chosen = np.random.default_rng(self.seed).choice(tuples, self.probes, replace=False)
        return np.sort(chosen).astype(np.int64)


ALL = ProbeSample()


def judge(
    query: Query,
    streams: Sequence[StreamRows],
    reported: pa.Table,
    verdict: Verdict,
    runner: Runner = run_here,
    sample: ProbeSample = ALL,
) -> Verdict:
    """Compare the result rows `reported`, in their order, with the join of `streams`."""
    if query.residuals or query.results.output is Output.ROWS:
        raise ValueError(f"query {query.name}: conditions on pairs and select lists need Spark: use `loadgen check`")
    verdict.rejected = ordering.rejected_counts(query, streams)
    streams = ordering.numbered(query, streams)
    if query.results.output is Output.COUNT:
        verdict.output_sha256 = reported_sha256(query, reported)
    if query.results.output is not Output.PAIRS:
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
    seqs = sample.of(verdict.tuples)
    verdict.probes_checked = len(seqs)
    blocks = [seqs[at : at + BLOCK_PROBES] for at in range(0, len(seqs), BLOCK_PROBES)]
    expected = _sum_up(runner(query, ordered.tuples(query, streams), claims, blocks), verdict)
    if expected is not None and expected.shape[1] == verdict.tuples:
        verdict.oracle_sha256 = expected_sha256(query, ordered.keys(streams), expected)
    return verdict


def compare(query: Query, loop: NestedLoop, reported: Reported, seqs: I64) -> Tally:
    """Compare the reported results of the probes `seqs` (ascending) with the definition."""
    if isinstance(reported, Counts):
        return compare_counts(query, loop, reported, seqs)
    if isinstance(reported, Bitmaps):
        return compare_bitmaps(query, loop, reported, seqs)
    return compare_pairs(query, loop, reported, seqs)


def _sum_up(tallies: Iterable[Tally], verdict: Verdict) -> I64 | None:
    """Add tallies to the verdict; returns the expected counts, int64 (2, m), if the tallies (in order) have them."""
    first: tuple[int, str] | None = None
    expected: list[I64] | None = [np.zeros((2, 0), np.int64)]
    for tally in tallies:
        expected = None if expected is None or tally.expected is None else [*expected, tally.expected]
        verdict.matches += tally.matches
        verdict.rows_expected += tally.rows_expected
        verdict.rows_right += tally.rows_right
        verdict.false_positives += tally.false_positives
        if tally.first >= 0 and (first is None or tally.first < first[0]):
            first = tally.first, tally.words
    if first is not None:
        verdict.differs(first[1])
    return None if expected is None else np.concatenate(expected, axis=1)


def _one_row_a_seq(reported: pa.Table, verdict: Verdict) -> pa.Table:
    """Rows ascending by seq, each once; other rows are noted in the verdict."""
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
    """The reported rows as the comparison takes them; rows with a nonexistent seq count as false."""
    n = len(ordered.stream)
    if query.results.output is Output.COUNT:
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
    pairs = pairs.at(inside)
    return pairs if query.results.output is Output.PAIRS else Bitmaps(pairs, _present(reported, n, verdict))


def _present(reported: pa.Table, tuples: int, verdict: Verdict) -> NDArray[np.bool_]:
    """Whether each seq has a row."""
    present = np.zeros(tuples, np.bool_)
    if reported.num_rows:
        seq = reported["seq"].to_numpy()
        _note_outside(int((seq >= tuples).sum()), tuples, verdict)
        present[seq[seq < tuples]] = True
    return present


def _check_sums(query: Query, reported: pa.Table, verdict: Verdict) -> None:
    if not query.is_of_one_input or reported.num_rows == 0:
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
    """Check that the streams and keys in results belong to their seqs."""
    if reported.num_rows == 0 or query.results.output is Output.BITMAP:
        return
    names = pa.array([stream.name for stream in query.inputs]).take(pa.array(ordered.stream))
    keys = pa.array(ordered.keys(streams), pa.string())
    pairs = [("seq", "stream", names), ("seq", "key", keys)]
    if query.results.output is Output.PAIRS:
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


def settle_rejects(
    streams: Sequence[StreamRows], letters: Sequence[Mapping[Place, str]], query: Query, verdict: Verdict
) -> list[StreamRows]:
    """Find late rows and compare all refused rows with the dead letters; returns the other rows of each stream."""
    if ordering.is_by_time(query):
        streams = [rows_.without(ordering.late_rows(rows_, query.order.lateness_us), "late") for rows_ in streams]
        streams = [_without_passed(rows_, dead, streams) for rows_, dead in zip(streams, letters, strict=True)]
    for stream, rows_, dead in zip(query.inputs, streams, letters, strict=True):
        compare_rejects(stream.name, rows_, dead, verdict)
    return list(streams)


def _without_passed(rows_: StreamRows, dead: Mapping[Place, str], streams: Sequence[StreamRows]) -> StreamRows:
    """Refuse rows that came after the merge had passed their time, because their input was idle or broke a promise.

    This depends on the order of reading, so only the dead letters show it. But each such row must be earlier in time
    than some tuple.
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
    """Check that every refused row has a dead letter with a reason that applies, and no other row has one."""
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


def place_of(headers: Mapping[str, bytes]) -> Place:
    """The row that a dead letter refers to."""
    partition, offset, row = (int(headers[f"{LETTER}source-{name}"]) for name in ("partition", "offset", "row"))
    return partition, offset, row


def reason_of(headers: Mapping[str, bytes]) -> str:
    """The reason for which a dead letter's row was refused."""
    return headers[LETTER + "reason"].decode()
