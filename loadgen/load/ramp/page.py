"""The ramp as one HTML page: the latency-throughput curve and its table, self-contained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from loadgen.load.ramp.step import Step
from spojoin.errors import ConfigurationError

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse } td, th { padding: .25rem .9rem .25rem 0; text-align: right }
td:last-child, th:last-child { text-align: left } tr { border-bottom: 1px solid #ddd } .no { color: #b00020 }
"""
#: Latency's percentiles, as columns and as lines of the plot.
_LINES = {"p50": "latency_ms_p50", "p90": "latency_ms_p90", "p99": "latency_ms_p99"}
HEADINGS = ("rows/s asked", "sent", "answered", "lag rows", *(f"{name} ms" for name in _LINES), "max ms", "")


def cells(step: Step) -> tuple[str, ...]:
    """A step's cells in the order of HEADINGS."""
    figures = (step.rate, step.produced, step.answered, step.lag_rows)
    latencies = (*(getattr(step, field) for field in _LINES.values()), step.latency_ms_max)
    texts = (*(f"{figure:,.0f}" for figure in figures), *("-" if ms is None else f"{ms:,.0f}" for ms in latencies))
    return (*texts, "holds" if step.holds else step.verdict)


def write_page(path: Path, title: str, about: str, steps: Sequence[Step], p99_ms_max: float) -> None:
    """Write the page. Raises ConfigurationError if plotly is missing."""
    script, plot = _plot(sorted(steps, key=lambda step: step.rate), p99_ms_max)
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    rows = "".join(_row(step) for step in steps)
    path.write_text(
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<style>{_STYLE}</style><script>{script}</script></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(about)}</p>{plot}<table><tr>{heads}</tr>{rows}</table></body></html>",
        encoding="utf-8",
    )


def _row(step: Step) -> str:
    inner = "".join(f"<td>{escape(cell)}</td>" for cell in cells(step))
    return f"<tr class='{'yes' if step.holds else 'no'}'>{inner}</tr>"


def _plot(steps: Sequence[Step], p99_ms_max: float) -> tuple[str, str]:
    """Plotly's script and the plot."""
    try:
        import plotly.graph_objects as go  # noqa: PLC0415  (an extra)
        from plotly.offline import get_plotlyjs  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError("the curve needs Plotly: pip install spojoin-loadgen") from error
    plot = go.Figure()
    rates = [step.rate for step in steps]
    symbols = ["circle" if step.holds else "x" for step in steps]
    for name, field in _LINES.items():
        marker = {"symbol": symbols, "size": 9}
        plot.add_scatter(x=rates, y=[getattr(s, field) for s in steps], name=name, mode="lines+markers", marker=marker)
    plot.add_hline(y=p99_ms_max, line_dash="dot", annotation_text=f"bound of p99: {p99_ms_max:,.0f} ms")
    plot.update_xaxes(title_text="rows/s; a cross: does not hold")
    plot.update_yaxes(title_text="ms from due to result", type="log")
    plot.update_layout(height=460, margin={"t": 30, "b": 50}, template="simple_white")
    return get_plotlyjs(), plot.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})


def as_json(about: Mapping[str, object], steps: Sequence[Step], best: float | None) -> dict[str, object]:
    """The ramp as JSON; `highest_rate` is null if no rate holds."""
    return {**about, "highest_rate": best, "steps": [step.as_json() for step in steps]}
