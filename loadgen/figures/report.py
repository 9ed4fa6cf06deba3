"""Figures as one HTML page, nothing from outside, with the CSV beneath each."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path

from loadgen.figures.measure import Measured
from spojoin.errors import ConfigurationError
from spojoin.query.methods import METHODS
from spojoin.query.model import DEFAULT_METHOD

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse } td, th { padding: .25rem .9rem .25rem 0; text-align: right }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #ddd } .no { color: #b00020 }
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: what it is called, what the paper shows, what was measured, and its rows."""

    name: str
    title: str
    paper: str
    rows: Sequence[Measured]


def write(figures: Sequence[Figure], about: Mapping[str, object], folder: Path) -> Path:
    """Write figures.html and a CSV a figure; the page's path. Raises ConfigurationError where plotly is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    script, plots = _plots(figures)
    parts = [f"<h2>{escape(f.title)}</h2><p>{escape(f.paper)}</p>{plot}{_table(f)}" for f, plot in plots]
    facts = "; ".join(f"{name} {value}" for name, value in about.items())
    path = folder / "figures.html"
    path.write_text(
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Methods side by side</title>"
        f"<style>{_STYLE}</style><script>{script}</script></head><body><h1>Methods side by side</h1>"
        f"<p>{escape(facts)}</p>{''.join(parts)}</body></html>",
        encoding="utf-8",
    )
    for figure in figures:
        _write_csv(folder / f"{figure.name}.csv", figure.rows)
    return path


def _write_csv(path: Path, rows: Sequence[Measured]) -> None:
    names = [field.name for field in fields(Measured)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)


def ratios(rows: Sequence[Measured]) -> dict[tuple[str, int], float]:
    """By (method, window): how many times a tuple of it costs what the product's own costs."""
    own = {row.window: row.us for row in rows if row.method == DEFAULT_METHOD}
    return {
        (row.method, row.window): row.us / base
        for row in rows
        if row.us is not None and (base := own.get(row.window)) is not None
    }


def _table(figure: Figure) -> str:
    times = ratios(figure.rows)
    heads = ("method", "window", "us a tuple", "tuples/s", f"times {DEFAULT_METHOD}'s cost", "bytes a tuple", "merges")
    return (
        f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>"
        f"{''.join(_row(row, times.get((row.method, row.window))) for row in figure.rows)}</table>"
        f"<p><a href='{figure.name}.csv'>{figure.name}.csv</a></p>"
    )


def _row(row: Measured, times: float | None) -> str:
    if row.us is None or row.bytes_a_tuple is None:
        return (
            f"<tr class='no'><td>{row.method}</td><td>{row.window:,}</td><td colspan='5'>{escape(row.error)}</td></tr>"
        )
    cells = (f"{row.window:,}", f"{row.us:,.2f}", f"{1e6 / row.us:,.0f}", "-" if times is None else f"{times:,.1f}")
    more = (f"{row.bytes_a_tuple:,.0f}", f"{row.merges:,.0f}")
    title = escape(METHODS[row.method].cites, quote=True)
    return f"<tr><td title='{title}'>{row.method}</td>{''.join(f'<td>{cell}</td>' for cell in (*cells, *more))}</tr>"


def _plots(figures: Sequence[Figure]) -> tuple[str, list[tuple[Figure, str]]]:
    try:
        import plotly.graph_objects as go  # noqa: PLC0415  (an extra)
        from plotly.offline import get_plotlyjs  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError("figures need plotly: pip install 'spojoin[local]'") from error
    made = []
    for figure in figures:
        plot = go.Figure()
        for name in dict.fromkeys(row.method for row in figure.rows):
            rows = [row for row in figure.rows if row.method == name and row.us is not None]
            plot.add_scatter(
                x=[row.window for row in rows],
                y=[row.tuples_per_second for row in rows],
                name=name,
                mode="lines+markers",
            )
        plot.update_xaxes(type="log", title="tuples of window")
        plot.update_yaxes(type="log", title="tuples/s, both roles")
        plot.update_layout(margin={"t": 20}, height=460)
        made.append((figure, str(plot.to_html(full_html=False, include_plotlyjs=False))))
    return str(get_plotlyjs()), made
