"""Section `probe`: a PO-Join worker's probe against a scan of the same window, on one thread, rank lookups included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from loadgen.bench import bitmap_probe
from loadgen.bench.batches import filled
from loadgen.bench.context import Context
from loadgen.bench.data import ABOUT, I64, NAMES, Columns, by_slot, columns, self_join
from loadgen.bench.figures import Figure, at_least, at_most
from loadgen.bench.scans import NUMPY_SCANS, SCANS, SIMD, SIMD_TILED, count_both
from loadgen.bench.sizes import Sizes
from loadgen.bench.timing import best_seconds
from spojoin.index.stream_index import StreamIndex
from spojoin.query.model import Output, Query
from spojoin.wire.records import Matches

COUNT_BAR = at_least(200)
BITMAP_BAR = at_least(8)
GROWTH_BAR = at_most(1.6)
COUNT_BYTES_BAR = at_most(60)
BITMAP_BYTES_BAR = at_most(120)
WHOLE_WINDOW = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class Subject:
    """An index that holds `stored`, and the probes that follow."""

    query: Query
    stored: Columns
    probes: Columns
    index: StreamIndex

    def evaluate(self, probes: Columns) -> list[Matches]:
        """Both roles of all probes at once."""
        codes = by_slot(self.query, probes)
        return [self.index.evaluate(role, codes, WHOLE_WINDOW) for role in self.query.roles]


def subject(data: Columns, window: int, batch: int, output: Output) -> Subject:
    """An index of the first `window` tuples in ten groups, and one tuple more, which closes the tenth."""
    query = self_join(window, window // 10, output)
    stored = data[: window + 1]
    index = filled(query, by_slot(query, stored), window // 10, batch)
    return Subject(query, stored, data[window + 1 :], index)


def measure(context: Context) -> Iterator[Figure]:
    """Counts, bitmaps, partners, growth with the window, and memory."""
    sizes = context.sizes
    for name in NAMES:
        data = columns(name, sizes.window + 1 + sizes.frame * sizes.frames)
        yield from _workload(name, data, sizes)


def _workload(name: str, data: Columns, sizes: Sizes) -> Iterator[Figure]:
    large = subject(data, sizes.window, sizes.batch, Output.COUNT)
    small = subject(data, sizes.window_small, sizes.batch, Output.COUNT)
    words = bitmap_probe.BitmapNodes.of(large.query, large.stored, sizes.slide)
    partners = subject(data, sizes.window, sizes.batch, Output.BITMAP)
    check(large, large.probes[: sizes.scan_probes])
    check(partners, partners.probes[: sizes.scan_probes])
    words.check(large.probes[: sizes.scan_probes])

    few = large.probes[: sizes.scan_probes]
    frames = _frames(large.query, large.probes, sizes)
    runs: dict[str, Callable[[], object]] = {
        scan: partial(count_both, SCANS[scan], large.stored, few) for scan in SCANS
    }
    runs["count"] = lambda: _evaluate(large, frames)
    runs["count small"] = lambda: _evaluate(small, frames)
    runs["bitmap"] = lambda: words.match_all(large.probes[: sizes.frame])
    runs["partners"] = lambda: partners.evaluate(large.probes[: sizes.partner_probes])
    everything = sizes.frame * sizes.frames
    probes = {"count": everything, "count small": everything, "bitmap": sizes.frame, "partners": sizes.partner_probes}
    best = best_seconds(runs, sizes.repeats)
    us = {run: took / (2 * probes.get(run, len(few))) * 1e6 for run, took in best.items()}
    yield from _figures(name, us)
    yield from _memory(name, large, partners)


def _figures(name: str, us: dict[str, float]) -> Iterator[Figure]:
    fastest = min(SCANS, key=lambda scan: us[scan])
    baseline = f"{ABOUT[name]}; {fastest} {us[fastest]:.1f} us"
    numpy_us = min(us[scan] for scan in NUMPY_SCANS)
    unit = "us a probe and role"
    yield Figure(f"{name}: count", us["count"], unit, note=ABOUT[name])
    yield Figure(f"{name}: count, fastest scan / probe", us[fastest] / us["count"], "times", COUNT_BAR, baseline)
    yield Figure(
        f"{name}: count, scan probe by probe / probe", us[SIMD] / us["count"], "times", note=f"{SIMD} {us[SIMD]:.1f} us"
    )
    yield Figure(f"{name}: count, NumPy's scan / probe", numpy_us / us["count"], "times", note=f"{numpy_us:.1f} us")
    growth = us["count"] / us["count small"]
    yield Figure(
        f"{name}: count, window ten times as long", growth, "times", GROWTH_BAR, f"from {us['count small']:.3f} us"
    )
    yield Figure(f"{name}: full bitmap", us["bitmap"], unit)
    yield Figure(
        f"{name}: full bitmap, fastest scan / probe", us[fastest] / us["bitmap"], "times", BITMAP_BAR, baseline
    )
    yield Figure(f"{name}: partners one by one", us["partners"], unit, note="every partner's seq as int64")


def _memory(name: str, counts: Subject, bitmaps: Subject) -> Iterator[Figure]:
    for what, held, bar in (("counts", counts, COUNT_BYTES_BAR), ("bitmaps", bitmaps, BITMAP_BYTES_BAR)):
        value = held.index.nbytes / held.index.tuples
        yield Figure(f"{name}: memory for {what}", value, "bytes a tuple of window", bar, f"{held.index.nodes} nodes")


def _frames(query: Query, probes: Columns, sizes: Sizes) -> list[tuple[I64, ...]]:
    return [by_slot(query, probes[at : at + sizes.frame]) for at in range(0, sizes.frame * sizes.frames, sizes.frame)]


def _evaluate(held: Subject, frames: list[tuple[I64, ...]]) -> None:
    for codes in frames:
        for role in held.query.roles:
            held.index.evaluate(role, codes, WHOLE_WINDOW)


def check(held: Subject, probes: Columns) -> None:
    """Compare with a scan: what is fast and wrong must not be timed. Raises AssertionError."""
    expected = count_both(SCANS[SIMD_TILED], held.stored, probes)
    for role, matches, counts in zip(held.query.roles, held.evaluate(probes), expected, strict=True):
        side = "left" if role.as_left else "right"
        if not np.array_equal(matches.counts, counts):
            raise AssertionError(f"as {side}: the index counts {matches.counts}, a scan {counts}")
