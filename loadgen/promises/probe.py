"""Section `probe`: a PO-Join worker's probe against a scan of the same window, on one thread, rank lookups included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from loadgen.promises.batches import filled
from loadgen.promises.bitmap_probe import BitmapNodes
from loadgen.promises.context import Context
from loadgen.promises.data import ABOUT, I64, NAMES, Columns, by_slot, columns, self_join
from loadgen.promises.figures import Bar, Measurement, at_least, at_most
from loadgen.promises.scans import NUMPY_SCANS, SCANS, SIMD, SIMD_TILED, count_both
from loadgen.promises.sizes import PromiseSizes
from loadgen.promises.timing import best_seconds
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Output, Query
from spojoin.wire.records import Matches

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
    """An index of the first `window` tuples in ten groups, and one tuple more, which closes the tenth."""
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
    """Microseconds a probe and direction of every scan and of every way to ask the index."""
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
    """Compare with a scan: a wrong answer must not be timed. Raises AssertionError."""
    expected = count_both(SCANS[SIMD_TILED], held.stored, probes)
    for direction, matches, counts in zip(held.query.directions, held.evaluate(probes), expected, strict=True):
        side = "left" if direction.as_left else "right"
        if not np.array_equal(matches.counts, counts):
            raise AssertionError(f"as {side}: the index counts {matches.counts}, a scan {counts}")
