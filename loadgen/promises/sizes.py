"""The sizes of measurements: the promised sizes, and small ones that only show that everything runs."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.bench.sections import SectionContext


@dataclass(frozen=True, slots=True)
class PromiseSizes:
    """Sizes in tuples unless their name says otherwise.

    window, window_small: window lengths; a slide is a tenth of them
    batch: tuples of a sealed batch, as the router seals them
    frame, frames: probes evaluated together, as in `spojoin run`, and how many such frames a timing covers scan_probes,
    partner_probes: probes of a timed scan, and of a timing that lists all partners
    repeats: the number of runs of a short timing; the best counts
    embedded_after: tuples of `spojoin run` after the full window
    slide_after: tuples over which each of the two slides is timed
    pairs, pairs_parquet: pairs made with a full window, as batches and into a file
    services_after, json_after: tuples through all services with a full window, in Arrow batches and as JSON messages
    credits_frames: the router's lead over the results; the topics hold as many more frames, to keep it busy
    latency_s, settle_s: seconds at half rate in which latency is measured, and unmeasured seconds before
    history_rows: tuples of the history on Spark, over the small window
    scale_runs: how often each process of sections `scale`, `heavy` and `columns` runs; the least time counts
    heavy_works: how many works that a probe dominates are measured
    wide_batches: sealed batches of the wide window, whose column is measured alone
    is_judged: whether bars apply
    """

    window: int
    window_small: int
    batch: int
    frame: int
    frames: int
    scan_probes: int
    partner_probes: int
    repeats: int
    embedded_after: int
    slide_after: int
    pairs: int
    pairs_parquet: int
    services_after: int
    json_after: int
    credits_frames: int
    latency_s: float
    settle_s: float
    history_rows: int
    scale_runs: int
    heavy_works: int
    wide_batches: int
    is_judged: bool

    @property
    def slide(self) -> int:
        """The large slide: a tenth of the window."""
        return self.window // 10


FULL = PromiseSizes(
    window=1_000_000,
    window_small=100_000,
    batch=8_192,
    frame=8_192,
    frames=4,
    scan_probes=32,
    partner_probes=128,
    repeats=9,
    embedded_after=2_000_000,
    slide_after=500_000,
    pairs=100_000_000,
    pairs_parquet=50_000_000,
    services_after=2_000_000,
    json_after=500_000,
    credits_frames=128,
    latency_s=20.0,
    settle_s=5.0,
    history_rows=20_000_000,
    scale_runs=2,
    heavy_works=3,
    wide_batches=12_210,
    is_judged=True,
)

QUICK = PromiseSizes(
    window=40_000,
    window_small=4_000,
    batch=2_048,
    frame=512,
    frames=2,
    scan_probes=8,
    partner_probes=16,
    repeats=2,
    embedded_after=140_000,
    slide_after=20_000,
    pairs=100_000,
    pairs_parquet=100_000,
    services_after=400_000,
    json_after=100_000,
    credits_frames=16,
    latency_s=3.0,
    settle_s=1.0,
    history_rows=100_000,
    scale_runs=1,
    heavy_works=1,
    wide_batches=1_290,
    is_judged=False,
)

#: The argument of every section.
Context = SectionContext[PromiseSizes]
