"""Figures as SVG."""

from __future__ import annotations

from io import StringIO
from typing import Any

from loadgen.papers.model import Figure, Panel, Series
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
