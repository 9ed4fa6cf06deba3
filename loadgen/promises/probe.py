"""Sealed batches as the permutation service sends them, made without services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from loadgen.bench.measurement import Bar, Measurement, at_least, at_most, best_seconds
from loadgen.promises.data import ABOUT, NAMES, Columns, by_slot, columns, self_join
from loadgen.promises.scan import NUMPY_SCANS, SCANS, SIMD, SIMD_TILED, count_both
from loadgen.promises.sizes import Context, PromiseSizes
from spojoin.arrays import I64
from spojoin.index.conditions import Known, Probes, RankInterval, conditions, located
from spojoin.index.node import Node, from_batch
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels import bitmaps
from spojoin.kernels.permutation import permutation, sort_column
from spojoin.model import Direction, Output, Query
from spojoin.wire.records import Batch, Matches, SortedColumn


def batches(codes: tuple[I64, ...], group_tuples: int, batch_tuples: int) -> Iterator[Batch]:
    """Batches of at most `batch_tuples` that never cross a group's end; a group is a slide interval.

    codes: int64 (n,) by slot, in arrival order
    """
    firsts = [
        (first, min(first + batch_tuples, end))
        for begin in range(0, len(codes[0]), group_tuples)
        for end in [min(begin + group_tuples, len(codes[0]))]
        for first in range(begin, end, batch_tuples)
    ]
    for number, (first, end) in enumerate(firsts):
        yield _batch(number, first, first // group_tuples, tuple(column[first:end] for column in codes))


def filled(query: Query, codes: tuple[I64, ...], group_tuples: int, batch_tuples: int) -> StreamIndex:
    """A PO-Join worker's index of a self join that holds all tuples, each group merged as the worker merges it.

    A group is merged when a later one begins, so the tuple after the last full group closes it.
    """
    index = StreamIndex(query.directions, query.results.output, query.results.limit, is_self=True)
    for batch in batches(codes, group_tuples, batch_tuples):
        index.add(batch)
    return index


def _batch(number: int, first: int, group: int, codes: tuple[I64, ...]) -> Batch:
    columns = tuple(SortedColumn(slot, *sort_column(column)) for slot, column in enumerate(codes))
    pairs = [(a, b) for a in range(len(codes)) for b in range(a + 1, len(codes))]
    end = first + len(codes[0])
    return Batch(
        stream=0,
        batch_id=number,
        first=first,
        end=end,
        group=group,
        columns=columns,
        permutations={(a, b): permutation(columns[a].order, columns[b].order) for a, b in pairs},
        seqs=np.arange(first, end),
        times_us=None,
        keys=None,
    )


#: Bitmaps of this many probes, at most 1 MiB, about fit the second-level cache, and a call's overhead is negligible.
_TOGETHER = 128


@dataclass(frozen=True, slots=True)
class BitmapNodes:
    """A window as a worker's nodes: one per group, or per part of it for which prefix bitmaps are made."""

    query: Query
    stored: Columns
    nodes: list[Node]

    @classmethod
    def of(cls, query: Query, stored: Columns, group: int) -> BitmapNodes:
        """All of `stored`, in groups of this number of tuples."""
        made = batches(by_slot(query, stored), group, bitmaps.CHUNK_MAX)
        nodes = [from_batch(batch, (0, 1), with_seqs=False, with_permutations=False) for batch in made]
        return cls(query, stored, nodes)

    def match(self, direction: Direction, probes: Columns) -> Iterator[NDArray[np.uint64]]:
        """The bitmaps of all nodes, for some probes at a time: uint64 (k, words); includes rank lookups."""
        frame, wanted = Probes(by_slot(self.query, probes)), conditions(direction.predicates)
        for node in self.nodes:
            known: Known = {}
            intervals = [located(condition, node, frame, known) for condition in wanted]
            predicates = _predicates(node, intervals)
            visit = bitmaps.in_parts(predicates, intervals[0].visit)
            for begin in range(0, len(probes), _TOGETHER):
                yield bitmaps.match_bitmaps(predicates, visit[begin : begin + _TOGETHER])

    def match_all(self, probes: Columns) -> None:
        """The bitmaps of both directions, each dropped when the next one comes."""
        for direction in self.query.directions:
            for _ in self.match(direction, probes):
                pass

    def check(self, probes: Columns) -> None:
        """Compare the number of bits with a scan. Raises AssertionError."""
        scanned = count_both(SCANS[SIMD_TILED], self.stored, probes)
        for direction, expected in zip(self.query.directions, scanned, strict=True):
            found = sum(int(np.bitwise_count(words).sum()) for words in self.match(direction, probes))
            if found != expected.sum():
                raise AssertionError(f"bitmaps hold {found} matches, a scan finds {expected.sum()}")


def _predicates(node: Node, intervals: Sequence[RankInterval]) -> bitmaps.Predicates:
    return bitmaps.Predicates(
        [node.prefixes(x.slot) for x in intervals],
        [node.columns[x.slot].order for x in intervals],
        [node.ranks(x.slot) for x in intervals],
        [x.a for x in intervals],
        [x.b for x in intervals],
        [x.complement for x in intervals],
    )


COUNT_BAR = at_least(200)
BITMAP_BAR = at_least(8)
GROWTH_BAR = at_most(1.6)
COUNT_BYTES_BAR = at_most(60)
BITMAP_BYTES_BAR = at_most(120)
WHOLE_WINDOW = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class ProbedIndex:
    """An index that holds `stored`, and the probes that follow."""

    query: Query
    stored: Columns
    probes: Columns
    index: StreamIndex

    def evaluate(self, probes: Columns) -> tuple[Matches, ...]:
        """Both directions of all probes at once."""
        return self.index.evaluate(by_slot(self.query, probes), WHOLE_WINDOW)


def subject(data: Columns, window: int, batch: int, output: Output) -> ProbedIndex:
    """An index of the first `window` tuples in ten groups, and one more tuple, which closes the tenth."""
    query = self_join(window, window // 10, output)
    stored = data[: window + 1]
    index = filled(query, by_slot(query, stored), window // 10, batch)
    return ProbedIndex(query, stored, data[window + 1 :], index)


def measure(context: Context) -> Iterator[Measurement]:
    """Counts, bitmaps, partners, growth with the window, and memory."""
    sizes = context.sizes
    for name in NAMES:
        data = columns(name, sizes.window + 1 + sizes.frame * sizes.frames)
        yield from _workload(name, data, sizes)


def _workload(name: str, data: Columns, sizes: PromiseSizes) -> Iterator[Measurement]:
    large = subject(data, sizes.window, sizes.batch, Output.COUNT)
    small = subject(data, sizes.window_small, sizes.batch, Output.COUNT)
    partners = subject(data, sizes.window, sizes.batch, Output.BITMAP)
    words = BitmapNodes.of(large.query, large.stored, sizes.slide)
    few = large.probes[: sizes.scan_probes]
    for held in (large, partners):
        check(held, few)
    words.check(few)
    yield from _figures(name, _timed(large, small, partners, words, sizes))
    yield from _memory(name, large, partners)


def _timed(
    large: ProbedIndex, small: ProbedIndex, partners: ProbedIndex, words: BitmapNodes, sizes: PromiseSizes
) -> dict[str, float]:
    """Microseconds per probe and direction of every scan and of every way to search the index."""
    few, frame, listed = (large.probes[:count] for count in (sizes.scan_probes, sizes.frame, sizes.partner_probes))
    frames = _frames(large.query, large.probes, sizes)
    runs: dict[str, Callable[[], object]] = {
        scan: partial(count_both, SCANS[scan], large.stored, few) for scan in SCANS
    }
    runs["count"] = partial(_evaluate, large, frames)
    runs["count small"] = partial(_evaluate, small, frames)
    runs["bitmap"] = partial(words.match_all, frame)
    runs["partners"] = partial(partners.evaluate, listed)
    probes = {**dict.fromkeys(SCANS, len(few)), "bitmap": len(frame), "partners": len(listed)}
    probes |= dict.fromkeys(("count", "count small"), sizes.frame * sizes.frames)
    best = best_seconds(runs, sizes.repeats)
    return {run: took / (2 * probes[run]) * 1e6 for run, took in best.items()}


def _figures(name: str, us: dict[str, float]) -> Iterator[Measurement]:
    fastest = min(SCANS, key=lambda scan: us[scan])
    numpy = min(NUMPY_SCANS, key=lambda scan: us[scan])
    about = ABOUT[name]
    yield Measurement(f"{name}: count", us["count"], "us a probe and direction", note=about)
    yield Measurement(f"{name}: full bitmap", us["bitmap"], "us a probe and direction", note=about)
    yield Measurement(
        f"{name}: partners one by one", us["partners"], "us a probe and direction", note="every partner's seq"
    )
    yield _ratio(f"{name}: fastest scan / count", us, fastest, "count", COUNT_BAR)
    yield _ratio(f"{name}: scan probe by probe / count", us, SIMD, "count")
    yield _ratio(f"{name}: NumPy's scan / count", us, numpy, "count")
    yield _ratio(f"{name}: fastest scan / full bitmap", us, fastest, "bitmap", BITMAP_BAR)
    yield _ratio(f"{name}: scan probe by probe / full bitmap", us, SIMD, "bitmap")
    yield _ratio(f"{name}: count / count in a tenth of the window", us, "count", "count small", GROWTH_BAR)


def _ratio(name: str, us: dict[str, float], above: str, below: str, bar: Bar | None = None) -> Measurement:
    return Measurement(
        name, us[above] / us[below], "times", bar, f"{above}: {us[above]:.3g} us, {below}: {us[below]:.3g} us"
    )


def _memory(name: str, counts: ProbedIndex, bitmaps: ProbedIndex) -> Iterator[Measurement]:
    for what, held, bar in (("counts", counts, COUNT_BYTES_BAR), ("bitmaps", bitmaps, BITMAP_BYTES_BAR)):
        value = held.index.nbytes / held.index.tuples
        yield Measurement(
            f"{name}: memory for {what}", value, "bytes a tuple of window", bar, f"{held.index.nodes} nodes"
        )


def _frames(query: Query, probes: Columns, sizes: PromiseSizes) -> list[tuple[I64, ...]]:
    return [by_slot(query, probes[at : at + sizes.frame]) for at in range(0, sizes.frame * sizes.frames, sizes.frame)]


def _evaluate(held: ProbedIndex, frames: list[tuple[I64, ...]]) -> None:
    for codes in frames:
        held.index.evaluate(codes, WHOLE_WINDOW)


def check(held: ProbedIndex, probes: Columns) -> None:
    """Compare with a scan, so that only right answers are timed. Raises AssertionError."""
    expected = count_both(SCANS[SIMD_TILED], held.stored, probes)
    for direction, matches, counts in zip(held.query.directions, held.evaluate(probes), expected, strict=True):
        side = "left" if direction.as_left else "right"
        if not np.array_equal(matches.counts, counts):
            raise AssertionError(f"as {side}: the index counts {matches.counts}, a scan {counts}")
