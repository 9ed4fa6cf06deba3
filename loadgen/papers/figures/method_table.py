"""Every method on four kinds of self join, by window: not a figure of any paper, but a guide to choosing a method."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.papers.figure import Claim, ClaimVerdict, Entry, Figure, FigureRun, Panel, checked
from loadgen.papers.joins import INEQUALITIES, MORE, SLIDES, MeasuredJoin, self_join
from loadgen.papers.methods.catalog import METHODS
from loadgen.papers.sweep import Line, sweep
from loadgen.promises.data import columns

#: The product's promise for counts over uniform data: at this window, its speed divided by the scan's and by others'.
PROMISED_WINDOW, TIMES_THE_SCAN, TIMES_OTHERS = 1_000_000, 50, 100


@dataclass(frozen=True, slots=True)
class FigureWorkload:
    """A condition and the data set on which it is measured."""

    name: str
    about: str
    data: str
    condition: str
    is_promised: bool = False

    def join(self, window: int) -> MeasuredJoin:
        """A self join over a window of this many tuples."""
        drawn = columns(self.data, window + MORE)
        return self_join(self.condition, drawn.a, drawn.b, window, max(window // SLIDES, 1))

    def draw(self, run: FigureRun) -> Figure:
        """Throughput of all methods by window."""
        windows = run.pick((10_000, 100_000, 1_000_000), (1_000, 10_000))
        lines = [Line(name, name) for name in METHODS]
        table = sweep(run, windows, lines, lambda window: self.join(int(window)))
        panel = table.rates(self.about, "tuples of window", log_x=True)
        how = (
            "One thread; a tuple is stored and searched for in both directions. 'spo' is the whole engine, order and "
            "results included."
        )
        claims = (_fastest(panel), *([promise(panel)] if self.is_promised else []))
        title = f"Methods side by side: {self.about}"
        return Figure(f"methods-{self.name}", title, how, (panel,), claims, run.left_out)


def _fastest(panel: Panel) -> Claim:
    at: dict[float | str, dict[str, float]] = {}
    for series in panel.series:
        for x, y in zip(series.x, series.y, strict=True):
            at.setdefault(x, {})[series.name] = y
    best = {x: max(rates, key=lambda name: rates[name]) for x, rates in at.items()}
    here = "; ".join(f"{x:,}: {name}, {at[x][name]:,.0f} tuples/s" for x, name in best.items())
    return checked(
        "(not in a paper) the product's own is the fastest on large windows",
        here,
        "Other methods have no router, no frames and no results to write, and a scan is fast on small windows.",
        holds=bool(best) and list(best.values())[-1] == "spo",
    )


def promise(panel: Panel) -> Claim:
    """The product's speed divided by each method's, at the window of the promise."""
    rates = {
        series.name: series.y[list(series.x).index(PROMISED_WINDOW)]
        for series in panel.series
        if PROMISED_WINDOW in series.x
    }
    text = (
        f"(not in a paper) over {PROMISED_WINDOW:,} tuples {TIMES_THE_SCAN} times the scan, {TIMES_OTHERS} times each "
        "published method"
    )
    why = "The scan needs no tree and touches every tuple in vector instructions; the memory bounds its rate."
    own = rates.pop("spo", None)
    if own is None or not rates:
        return Claim(text, "no such window", ClaimVerdict.UNKNOWN, why)
    times = {name: own / rate for name, rate in rates.items()}
    unknown = [name for name in METHODS if name != "spo" and name not in rates and name != "hash"]
    short = [name for name, ratio in times.items() if ratio < (TIMES_THE_SCAN if name == "scan" else TIMES_OTHERS)]
    here = ", ".join(f"{name} {ratio:,.0f}" for name, ratio in times.items())
    here += f"; too few: {', '.join(short)}" if short else ""
    here += f"; not measured: {', '.join(unknown)}" if unknown else ""
    return checked(text, f"times {here}", why, holds=not short)


WORKLOADS = (
    FigureWorkload("q3-uniform", "two inequalities, 25 % of pairs match", "uniform", INEQUALITIES, is_promised=True),
    FigureWorkload("q3-selective", "two inequalities, 0.1 % of pairs match", "selective", INEQUALITIES),
    FigureWorkload(
        "q2-band",
        "two narrow bands, 0.1 % of pairs match",
        "uniform",
        "ABS(l.a - r.a) < 16000 AND ABS(l.b - r.b) < 16000",
    ),
    FigureWorkload("equality", "one equality on skewed keys and one inequality", "zipf", "l.a = r.a AND l.b < r.b"),
)
#: The promise needs a measurement of every method, and the slowest takes a minute to fill its window.
ENTRIES = tuple(
    Entry(f"methods-{workload.name}", 240 if workload.is_promised else 60, workload.draw) for workload in WORKLOADS
)
