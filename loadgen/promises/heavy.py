"""Section `heavy`: works that a probe dominates, with one row of workers and with many; see section `scale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from loadgen.bench.measurement import Measurement, at_least
from loadgen.promises import works
from loadgen.promises.alone import ScaleStage
from loadgen.promises.recording import ScaleWork
from loadgen.promises.scale import ALONE, GROWN, divided_us, release_figures, stages, whatever_us
from loadgen.promises.sizes import Context, PromiseSizes

#: The works, by what figures call them.
HEAVY: dict[str, Callable[[PromiseSizes], ScaleWork]] = {
    "three ranges": works.three_ranges,
    f"{works.PARTNERS} pairs a row, window of a tenth": works.pairs,
    "MAX over two ranges": works.greatest,
}
RATIO_BAR = at_least(6)


def measure(context: Context) -> Iterator[Measurement]:
    """The rates of both releases, by their busiest processes, and their ratio."""
    with stages(context) as stage_of:
        for name, make in islice(HEAVY.items(), context.sizes.heavy_works):
            yield from _figures(stage_of(make(context.sizes), None), name)


def _figures(stage: ScaleStage, name: str) -> Iterator[Measurement]:
    whatever, rates = whatever_us(stage), []
    for release in (ALONE, GROWN):
        for figure in release_figures(stage, release, whatever, divided_us(stage, release), f"{name}, "):
            yield figure
            if figure.unit == "tuples/s":
                rates.append(figure.value)
    several = f"{GROWN.grid.rows} rows of workers / one, by the busiest process"
    yield Measurement(f"{name}, {several}", rates[1] / rates[0], "times", RATIO_BAR)
