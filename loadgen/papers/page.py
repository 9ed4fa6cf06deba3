"""Figures as one self-contained HTML page, with an SVG and a CSV file for each figure."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from loadgen.papers.claims import Claim, ClaimVerdict
from loadgen.papers.model import Figure, LeftOut
from loadgen.papers.plot import svg

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
section { margin: 3rem 0 } svg { max-width: 100%; height: auto } table { border-collapse: collapse }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top } tr { border-bottom: 1px solid #ddd }
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
    facts = "; ".join(f"{name} {value}" for name, value in about.items())
    links = "".join(f"<a href='#{figure.name}'>{escape(figure.title)}</a>" for figure in figures)
    path = folder / PAGE
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>The papers' figures</title>"
        f"<style>{_STYLE}</style></head><body><h1>The papers' figures, measured here</h1><p>{escape(facts)}</p>"
        f"<p>{escape(_summary(figures))} {escape(TIMES)}</p><nav>{links}</nav>{''.join(sections)}</body></html>",
        encoding="utf-8",
    )
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
