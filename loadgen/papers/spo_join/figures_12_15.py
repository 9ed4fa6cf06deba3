"""SPO-Join, figures 12 to 15: insertion, memory and match rate."""

from __future__ import annotations

from loadgen.papers import data
from loadgen.papers.claims import Claim, claim
from loadgen.papers.joins import INEQUALITIES, MORE, SLIDES, MeasuredJoin, a_slide_is_mutable, cross_join, self_join
from loadgen.papers.model import Figure, Panel
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, sweep

#: Match rates of a synthetic Q3: shares that the paper's 15 to 249 million pairs are of a window of 25,000 to 100,000.
SHARES = (0.012, 0.05, 0.11, 0.25)
SHARES_TEXT = "share of pairs that match"
MUTABLE = "SPO-Join, mutable B+"
INSERTING = (
    Line(MUTABLE, "spo_paper", a_slide_is_mutable, is_searching=False),
    Line("PIM-Tree", "pim_tree", {"merge_ratio": "0.1"}, is_searching=False),
    Line("B+-tree", "bplus_bits", is_searching=False),
    Line("scan (a copy)", "scan", is_searching=False),
)


def _q3(window: int, slide: int, rate: float = 0.07) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.matching(rate, window + MORE), window, slide)


def figure_12(run: FigureRun) -> Figure:
    """Insertion alone."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    table = sweep(run, windows, INSERTING, lambda window: _q3(int(window), int(window) // SLIDES))
    title = "insertion, both columns where both are indexed"
    panel = Panel(title, "tuples of window", "us a tuple", table.series(lambda point: point.us), log_x=True)
    how = (
        "Tuples are stored and not searched for, except for one probe in each chunk, which lets the window move. A "
        "tenth of the window is mutable."
    )
    title = "SPO-Join, figure 12: insertion cost"
    return Figure("spo-join-12", title, how, (panel,), _insertion_claims(panel), run.left_out)


def _insertion_claims(panel: Panel) -> tuple[Claim, Claim]:
    why = (
        "Windows are a fiftieth of the paper's. SPO-Join and B+-trees index both columns, PIM-Tree indexes one and "
        "verifies the other; the cost includes the merges of SPO-Join and PIM-Tree."
    )
    pim, plain = panel.times("PIM-Tree", MUTABLE), panel.times("B+-tree", MUTABLE)
    return (
        claim("PIM-Tree inserts at 0.77 (10M) to 1.5 times (50M) SPO-Join's cost", pim, 0.77, 1.5, why),
        claim("a plain B+-tree inserts at 1.15 (10M) to 1.7 times (50M) SPO-Join's cost", plain, 1.15, 1.7, why),
    )


HELD = (
    Line("SPO-Join as published", "spo_paper", a_slide_is_mutable, is_searching=False),
    Line("PIM-Tree, one column", "pim_tree", {"merge_ratio": "1"}, is_searching=False),
    Line("CSS-tree", "css_bits", is_searching=False),
    Line("B+-tree", "bplus_bits", is_searching=False),
    Line("spo, indexes", "spo"),
)


def figure_13(run: FigureRun) -> Figure:
    """Bytes held."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    held = sweep(run, windows, HELD, _cross).series(lambda point: point.nbytes / 1e6)
    panel = Panel("memory of a cross join", "tuples of each window", "MB", held, log_x=True, log_y=True)
    claims = (
        claim(
            "PIM-Tree takes 1.5 to 2.5 times SPO-Join's memory",
            panel.times("PIM-Tree, one column", "SPO-Join as published"),
            1.5,
            2.5,
            "PO-Join keeps two sorted columns, two orders and two permutations, as the roles of a self join need both "
            "directions; PIM-Tree has a tree of one column here, with every other column beside it, and codes are 8 "
            "bytes, not 4.",
        ),
    )
    how = "Bytes of all arrays after the windows were filled and have moved on; the process itself isn't measured."
    return Figure("spo-join-13", "SPO-Join, figure 13: memory", how, (panel,), claims, run.left_out)


def _cross(window: float) -> MeasuredJoin:
    size = int(window)
    columns = (data.matching(0.07, size + MORE, 1), data.matching(0.07, size + MORE, 2))
    return cross_join(INEQUALITIES, columns, (size, size), (size // SLIDES, size // SLIDES))


def figure_14(run: FigureRun) -> Figure:
    """The mutable part by match rate."""
    slide = run.pick(50_000, 5_000)
    lines = (
        Line("B+, bit arrays", "bplus_bits"),
        Line("spo_paper, mutable alone", "spo_paper", {"delta": str(2 * slide)}),
    )
    panel = sweep(run, SHARES, lines, lambda share: _q3(slide, slide, share)).rates("mutable part, Q3", SHARES_TEXT)
    why = (
        "The cost of a range scan depends on each predicate's own selectivity, which is a half here at every match "
        "rate; the bit arrays have the same length at all of them."
    )
    falling = panel.growth("B+, bit arrays")
    claims = (claim("mean throughput falls from 167 to 114 tuples/s, to 0.68", falling, 0.5, 0.95, why),)
    how = (
        f"A window of one slide, {slide:,} tuples; the columns' correlation sets the match rate. The paper's slide "
        "changes with it, here it stays the same."
    )
    return Figure("spo-join-14", "SPO-Join, figure 14: match rate, mutable part", how, (panel,), claims, run.left_out)


#: Tuples of a frame in which latency is measured.
FRAME = 16


def figure_15(run: FigureRun) -> Figure:
    """The immutable part by match rate."""
    window = run.pick(500_000, 20_000)
    published = "PO-Join lists, as published"
    lines = (
        Line(published, "spo_paper", {"delta": str(window // SLIDES)}, FRAME, is_storing=False),
        Line("spo, whole", "spo", {}, FRAME),
    )
    table = sweep(run, SHARES, lines, lambda share: _q3(window, window // SLIDES, share))
    series = table.series(lambda point: point.latency_us(99) / 1e3 / FRAME)
    y = f"ms a tuple, 99th percentile of frames of {FRAME}"
    panel = Panel("immutable part, Q3", SHARES_TEXT, y, series, log_y=True)
    why = (
        "The paper's window grows with its match rate, here it stays the same; probes return the number of their "
        "partners and no list."
    )
    growth = panel.growth(published)
    claims = (claim("maximum latency grows from 51 to 190 ms, 3.7 times", growth, 2, 3.7, why),)
    how = f"{window:,} tuples in ten lists, searched by one thread."
    title = "SPO-Join, figure 15: match rate, immutable part"
    return Figure("spo-join-15", title, how, (panel,), claims, run.left_out)


ENTRIES = (
    Entry("spo-join-12", 30, figure_12),
    Entry("spo-join-13", 25, figure_13),
    Entry("spo-join-14", 25, figure_14),
    Entry("spo-join-15", 120, figure_15),
)
