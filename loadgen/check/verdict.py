"""The checker's findings, and the comparison of results with the join's definition."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.check.nested_loop import NestedLoop, directions
from loadgen.check.results import Pairs, pairs_of
from spojoin.arrays import I64
from spojoin.model import Output, Query
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import Completeness, key


@dataclass(slots=True)
class Verdict:
    """The outcome of a check; `is_exact` only if nothing differs.

    tuples: rows that take part; rejected: rows refused, by reason; rejects_wrong: refused rows whose dead letter is
    missing or wrong, and dead letters of rows that should take part
    probes_checked: all tuples, or the sample; matches: their matches by the definition
    completeness: right result rows / rows expected, of the probes checked (count: one row per probe; otherwise one per
    match) false_positives: reported pairs that don't match; duplicates: rows reported again; misordered: rows out of
    order resent: records on the wire that a restart wrote again, which a reader drops
    output_sha256, oracle_sha256: of a count output and of the definition's output (see `output_digest`); the latter
    only if this process has recomputed all of it
    first_difference: in words, None if there is none
    history_rows: result rows that were compared with a history on Spark, None if none were; rows_expected and
    rows_right count what both ways compared
    checked: the scope and the way of the check, in words
    """

    query: str
    tuples: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    rejects_wrong: int = 0
    probes_checked: int = 0
    matches: int = 0
    rows_expected: int = 0
    rows_right: int = 0
    false_positives: int = 0
    duplicates: int = 0
    misordered: int = 0
    resent: int = 0
    output_sha256: str | None = None
    oracle_sha256: str | None = None
    first_difference: str | None = None
    history_rows: int | None = None
    checked: str = ""

    @property
    def completeness(self) -> float:
        """The share of expected rows that are right; 1.0 only if all are right."""
        return self.rows_right / self.rows_expected if self.rows_expected else 1.0

    @property
    def is_exact(self) -> bool:
        """Whether the results are exactly the definition's."""
        wrong = self.rejects_wrong or self.false_positives or self.duplicates or self.misordered
        return not wrong and self.rows_right == self.rows_expected and self.first_difference is None

    def differs(self, words: str) -> None:
        """Note a difference; the first is kept."""
        if self.first_difference is None:
            self.first_difference = words

    def as_json(self) -> dict[str, Any]:
        """For a report file."""
        names = [name for name in self.__dataclass_fields__ if not name.startswith("rows_")]
        return {name: getattr(self, name) for name in names} | {
            "completeness": self.completeness,
            "is_exact": self.is_exact,
        }


@dataclass(frozen=True, slots=True)
class Tally:
    """The comparison of one block of probes; `first` is the seq of the first difference, -1 if there is none.

    expected: of a count output, int64 (2, m), the definition's counts as left and as right
    """

    matches: int
    rows_expected: int
    rows_right: int
    false_positives: int
    first: int
    words: str
    expected: I64 | None = None


Compare = Callable[[int, I64], Tally]


# --- counts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counts:
    """Reported counts by seq, int64 (n,) for each of the two directions; -1 if no row was reported.

    In a cross join a tuple has only the direction of its stream; the other count is 0.
    """

    by_role: tuple[I64, I64]

    @classmethod
    def of(cls, query: Query, rows: pa.Table, streams: NDArray[np.int8]) -> Counts:
        """From the rows of a count output, each seq at most once; `streams` has each tuple's stream."""
        n = len(streams)
        left, right = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        if rows.num_rows:
            seq = rows["seq"].to_numpy()
            inside = (seq >= 0) & (seq < n)
            seq = seq[inside]
            if query.is_of_one_input:
                left[seq], right[seq] = (rows[c].to_numpy()[inside] for c in ("as_left", "as_right"))
            else:
                matches = rows["matches"].to_numpy()[inside]
                left[seq] = np.where(streams[seq] == 0, matches, 0)
                right[seq] = np.where(streams[seq] == 1, matches, 0)
        return cls((left, right))


def compare_counts(query: Query, loop: NestedLoop, counts: Counts, seqs: I64) -> Tally:
    """Compare the reported counts of the probes `seqs` (ascending)."""
    expected = np.stack([_expected_counts(query, loop, number, seqs) for number in (0, 1)])
    found = np.stack([by_role[seqs] for by_role in counts.by_role])
    right = np.all(expected == found, axis=0)
    surplus = np.maximum(found - expected, 0).sum()
    first = int(np.argmin(right)) if not right.all() else -1
    words = "" if first < 0 else _count_words(int(seqs[first]), expected[:, first], found[:, first])
    return Tally(
        matches=int(expected.sum()),
        rows_expected=len(seqs),
        rows_right=int(right.sum()),
        false_positives=int(surplus),
        first=-1 if first < 0 else int(seqs[first]),
        words=words,
        expected=expected,
    )


def _expected_counts(query: Query, loop: NestedLoop, number: int, seqs: I64) -> I64:
    found = np.zeros(len(seqs), np.int64)
    at, probes = _probes(query, loop, number, seqs)
    found[at] = loop.counts(number, probes)
    return found


def _probes(query: Query, loop: NestedLoop, number: int, seqs: I64) -> tuple[I64, I64]:
    """The seqs that probe in a direction: their places in `seqs`, and their indexes in the direction's stream."""
    own = loop.seqs[directions(query)[number].probe]
    at = np.flatnonzero(np.isin(seqs, own))
    return at, np.searchsorted(own, seqs[at])


def _count_words(seq: int, expected: I64, found: I64) -> str:
    if (found < 0).any():
        return f"probe {seq}: no row; expected {expected[0]} matches as left and {expected[1]} as right"
    return (
        f"probe {seq}: reported {found[0]} matches as left and {found[1]} as right; "
        f"expected {expected[0]} and {expected[1]}"
    )


# --- pairs and bitmaps ------------------------------------------------------------------------------------------------


def sorted_pairs(query: Query, rows: pa.Table) -> tuple[Pairs, int]:
    """Reported pairs by (probe, direction, partner), each once, and the number of duplicates."""
    pairs = pairs_of(rows, query.results.output)
    order = np.lexsort((pairs.partner, pairs.direction, pairs.probe))
    pairs = pairs.at(order)
    again = np.zeros(len(order), np.bool_)
    again[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in pairs])
    return pairs.at(~again), int(again.sum())


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """A bitmap output's pairs, and whether each seq has a row, bool (n,)."""

    pairs: Pairs
    present: NDArray[np.bool_]


def compare_bitmaps(query: Query, loop: NestedLoop, reported: Bitmaps, seqs: I64) -> Tally:
    """Compare the reported rows of the probes `seqs` (ascending): one row per probe."""
    matches, _, missing, surplus = _compared(query, loop, reported.pairs, seqs)
    absent = seqs[~reported.present[seqs]]
    wrong = np.unique(np.concatenate([missing >> (_SEQ_BITS + 1), surplus >> (_SEQ_BITS + 1), absent]))
    first, words = _first_pair(missing, surplus)
    if len(absent) and (first < 0 or absent[0] <= first):
        first, words = int(absent[0]), f"probe {absent[0]}: no row"
    return Tally(matches, len(seqs), len(seqs) - len(wrong), len(surplus), first, words)


def compare_pairs(query: Query, loop: NestedLoop, reported: Pairs, seqs: I64) -> Tally:
    """Compare the reported pairs of the probes `seqs` (ascending): one row per pair."""
    matches, expected, missing, surplus = _compared(query, loop, reported, seqs)
    first, words = _first_pair(missing, surplus)
    return Tally(matches, expected, expected - len(missing), len(surplus), first, words)


def _compared(query: Query, loop: NestedLoop, reported: Pairs, seqs: I64) -> tuple[int, int, I64, I64]:
    """(all matches, pairs expected, codes of missing pairs, codes of wrong pairs)."""
    expected, matches = expected_pairs(query, loop, seqs)
    begin, end = np.searchsorted(reported.probe, [seqs[0], seqs[-1] + 1])
    found = reported.at(slice(begin, end))
    found = found.at(np.isin(found.probe, seqs))
    want, got = _codes(expected), _codes(found)
    return matches, len(want), np.setdiff1d(want, got), np.setdiff1d(got, want)


def expected_pairs(query: Query, loop: NestedLoop, seqs: I64) -> tuple[Pairs, int]:
    """The pairs that should be reported (cut at the query's limit), and the number of all matches."""
    parts = []
    for number in (0, 1):
        probe, partner = loop.pairs(number, _probes(query, loop, number, seqs)[1])
        parts.append(Pairs(probe, partner, np.full(len(probe), number, np.uint8)))
    pairs = Pairs.joined(parts)
    matches = len(pairs.probe)
    if query.results.output is Output.PAIRS and query.results.limit is not None:
        pairs = _earliest(pairs, query.results.limit)
    return pairs, matches


def _earliest(pairs: Pairs, limit: int) -> Pairs:
    """The first `limit` partners of each probe; if it matches on both sides, the first pair in the output."""
    order = np.lexsort((1 - pairs.direction.astype(np.int64), pairs.partner, pairs.probe))
    pairs = pairs.at(order)
    rank = np.arange(len(order)) - np.searchsorted(pairs.probe, pairs.probe, "left")
    return pairs.at(rank < limit)


#: Seqs below 2**31 fit twice into a code, with the direction between them.
_SEQ_BITS = 31


def _codes(pairs: Pairs) -> I64:
    return (pairs.probe << (_SEQ_BITS + 1)) | (pairs.direction.astype(np.int64) << _SEQ_BITS) | pairs.partner


def _first_pair(missing: I64, surplus: I64) -> tuple[int, str]:
    candidates = [(int(codes[0]), what) for codes, what in ((missing, "missing"), (surplus, "wrong")) if len(codes)]
    if not candidates:
        return -1, ""
    code, what = min(candidates)
    probe, rest = code >> (_SEQ_BITS + 1), code & ((1 << (_SEQ_BITS + 1)) - 1)
    partner, direction = rest & ((1 << _SEQ_BITS) - 1), rest >> _SEQ_BITS
    pair = f"({partner}, {probe})" if direction else f"({probe}, {partner})"
    return probe, f"probe {probe}: the pair {pair} is {what}"


def publish(verdict: Verdict, redis_url: str) -> None:
    """Store the verdict for the query's sink, which reports it as a metric. Raises StoreUnavailable."""
    found = Completeness(verdict.completeness, verdict.is_exact, time.time_ns() // 1_000_000)
    store = RedisStore(redis_url)
    try:
        store.put({key(verdict.query, "completeness"): found.fields()})
    finally:
        store.close()
