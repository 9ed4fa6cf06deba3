"""Figures as one self-contained HTML page, with an SVG and a CSV file for each figure."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from loadgen.bench.pages import facts, html_page
from loadgen.papers.figure import Claim, ClaimVerdict, Figure, LeftOut, Panel, Series
from spojoin.errors import ConfigurationError

WIDTH, HEIGHT = 5.2, 3.7
COLUMNS = 2
MARKS = "osD^v<>PX*"


def svg(figure: Figure) -> str:
    """The figure's panels, two to a row, as one SVG element. Raises ConfigurationError without matplotlib."""
    try:
        import matplotlib  # noqa: PLC0415  (an extra)

        matplotlib.use("svg")
        from matplotlib import pyplot  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError("figures need Matplotlib: pip install 'spojoin-loadgen[papers]'") from error
    rows = -(-len(figure.panels) // COLUMNS)
    columns = min(len(figure.panels), COLUMNS)
    # Text remains text, and a figure always gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name, "font.size": 9}):
        drawing, axes = pyplot.subplots(rows, columns, figsize=(WIDTH * columns, HEIGHT * rows), squeeze=False)
        for panel, axis in zip(figure.panels, axes.flat, strict=False):
            _draw(panel, axis)
        for axis in list(axes.flat)[len(figure.panels) :]:
            axis.set_axis_off()
        drawing.tight_layout()
        out = StringIO()
        drawing.savefig(out, format="svg", metadata={"Date": None})
        pyplot.close(drawing)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _draw(panel: Panel, axis: Any) -> None:  # noqa: ANN401  (matplotlib has no types)
    series = [each for each in panel.series if len(each.y)]
    if any(isinstance(x, str) for each in series for x in each.x):
        _bars(series, axis)
    else:
        for number, each in enumerate(series):
            _curve(each, MARKS[number % len(MARKS)], axis)
        if panel.log_x:
            axis.set_xscale("log")
    if panel.log_y and all(y > 0 for each in series for y in each.y):
        axis.set_yscale("log")
    elif series:
        axis.set_ylim(bottom=min(0, *(min(each.y) for each in series)))
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axis.grid(alpha=0.3)
    if len(series) > 1:
        axis.legend(fontsize=7)


def _curve(series: Series, mark: str, axis: Any) -> None:  # noqa: ANN401
    marker = mark if len(series.x) <= 24 else None
    if len(series.low):
        below = [y - low for y, low in zip(series.y, series.low, strict=True)]
        above = [high - y for y, high in zip(series.y, series.high, strict=True)]
        axis.errorbar(series.x, series.y, (below, above), label=series.name, marker=marker, markersize=4, capsize=2)
    else:
        axis.plot(series.x, series.y, label=series.name, marker=marker, markersize=4)


def _bars(series: list[Series], axis: Any) -> None:  # noqa: ANN401
    places = list(dict.fromkeys(x for each in series for x in each.x))
    width = 0.8 / len(series)
    for number, each in enumerate(series):
        at = [places.index(x) + (number - (len(series) - 1) / 2) * width for x in each.x]
        axis.bar(at, each.y, width, label=each.name)
    axis.set_xticks(range(len(places)), [str(place) for place in places])


_STYLE = """
section { margin: 3rem 0 } svg { max-width: 100%; height: auto } td, th { text-align: left }
.disagrees { color: #b00020 } .agrees { color: #0a6b2d } nav { columns: 3 } nav a { display: block }
"""
PAGE = "figures.html"
TIMES = (
    "Times are CPU times of one thread, which leave out other work on the machine, and wall times where a method has "
    "threads. 'Agrees' means the paper's direction, its size within a factor of one and a half, and at least half of "
    "its effect."
)


def write(figures: Sequence[Figure], about: Mapping[str, object], folder: Path) -> Path:
    """Write the page, and a CSV and an SVG for each figure; the page's path.

    Raises ConfigurationError without matplotlib.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_section(figure, folder) for figure in figures]
    links = "".join(f"<a href='#{figure.name}'>{escape(figure.title)}</a>" for figure in figures)
    path = folder / PAGE
    body = (
        f"<p>{facts(about)}</p><p>{escape(_summary(figures))} {escape(TIMES)}</p><nav>{links}</nav>{''.join(sections)}"
    )
    path.write_text(html_page("The papers' figures, measured here", body, style=_STYLE), encoding="utf-8")
    return path


def _summary(figures: Sequence[Figure]) -> str:
    verdicts = [claim.verdict for figure in figures for claim in figure.claims]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ClaimVerdict)
    return f"{len(figures)} figures; of {len(verdicts)} claims of the papers: {counts}."


def _section(figure: Figure, folder: Path) -> str:
    drawn = svg(figure)
    (folder / f"{figure.name}.svg").write_text(drawn, encoding="utf-8")
    _write_csv(figure, folder / f"{figure.name}.csv")
    return (
        f"<section id='{figure.name}'><h2>{escape(figure.title)}</h2><p>{escape(figure.how)}</p>{drawn}"
        f"<p><a href='{figure.name}.csv'>{figure.name}.csv</a> <a href='{figure.name}.svg'>{figure.name}.svg</a></p>"
        f"{_left_out(figure.left_out)}{_claims(figure.claims)}</section>"
    )


def _left_out(points: Sequence[LeftOut]) -> str:
    """One line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for point, why in points:
        by_reason.setdefault(why, []).append(point)
    return "".join(f"<p>Left out: {escape('; '.join(those))}: {escape(why)}.</p>" for why, those in by_reason.items())


def _claims(claims: Sequence[Claim]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("the paper shows", "measured here", "", "where they differ, why"))
    return f"<table><tr>{heads}</tr>{''.join(_claim(claim) for claim in claims)}</table>"


def _claim(claim: Claim) -> str:
    why = "" if claim.verdict is ClaimVerdict.AGREES else claim.why
    kind = claim.verdict.name.lower()
    cells = f"<td>{escape(claim.paper)}</td><td>{escape(claim.here)}</td><td class='{kind}'>{claim.verdict}</td>"
    return f"<tr>{cells}<td>{escape(why)}</td></tr>"


def _write_csv(figure: Figure, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("panel", "series", "x_is", "x", "y_is", "y", "low", "high"))
        for panel in figure.panels:
            for series in panel.series:
                for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                    ends = (series.low[i], series.high[i]) if len(series.low) else ("", "")
                    writer.writerow((panel.title, series.name, panel.x, x, panel.y, y, *ends))
