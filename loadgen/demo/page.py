"""The report as one HTML page: figures and self-contained plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from loadgen.bench.pages import html_page
from loadgen.demo.follower import latency_curve, timeline
from loadgen.demo.play import QueryOutcome

_STYLE = "pre { background: #f5f5f5; padding: .8rem; overflow-x: auto } .wrong { font-weight: 600 }"

#: plotly's buttons would cover titles
PLOT_CONFIG = {"displayModeBar": False}

#: Figures of report.json that both tables show, with their names there.
COLUMNS = {
    "tuples": "tuples",
    "rejected": "refused",
    "matches": "matches",
    "completeness": "completeness",
    "false_positives": "false positives",
    "duplicates": "duplicates",
    "tuples_per_second": "tuples/s, window full",
    "latency_ms_p50": "latency p50 ms",
    "latency_ms_p99": "latency p99 ms",
}


def write_page(
    path: Path, report: Mapping[str, Any], said: Sequence[tuple[str, bool]], outcomes: Sequence[QueryOutcome]
) -> None:
    """Write the page. said: the run's outcomes in sentences, each with whether it is right."""
    sections = [_section(query, outcome) for query, outcome in zip(report["queries"], outcomes, strict=True)]
    machine = report["machine"]
    about = f"{machine['cores']} cores, {machine['system']}, Python {machine['python']}; {report['seconds']} s in all"
    sentences = "".join(_sentence(*each) for each in said)
    body = f"{sentences}<p>{escape(about)}</p>{_overview(report['queries'])}{''.join(sections)}"
    page = html_page("Flights of 2013, joined and checked", body, style=_STYLE, script=get_plotlyjs())
    path.write_text(page, encoding="utf-8")


def _sentence(sentence: str, is_right: bool) -> str:
    return f"<p class='{'right' if is_right else 'wrong'}'>{escape(sentence)}</p>"


def is_proved(queries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every result was exactly the oracle's."""
    return bool(queries) and all(query["is_exact"] for query in queries)


def proved(queries: Sequence[Mapping[str, Any]]) -> str:
    """The outcome of the run in one sentence."""
    if not is_proved(queries):
        differ = ", ".join(query["name"] for query in queries if not query["is_exact"])
        return f"Not proved: {differ or 'no join'} of {_joins(len(queries))} are not what PySpark recomputed."
    total = {name: sum(query[name] for query in queries) for name in ("probes_checked", "matches", "rejected")}
    refused = f" ({total['rejected']:,} rows were refused, each with its reason)" if total["rejected"] else ""
    return (
        f"Proved: completeness 1, no false positive and no duplicate in {_joins(len(queries))}; a separate PySpark job "
        f"recomputed the results of all {total['probes_checked']:,} rows, {total['matches']:,} matches, and found "
        f"every one the same{refused}."
    )


def _joins(count: int) -> str:
    return "1 join" if count == 1 else f"{count} joins"


def _overview(queries: Sequence[Mapping[str, Any]]) -> str:
    heads = "".join(f"<th>{title}</th>" for title in ("query", *COLUMNS.values(), "verdict"))
    rows = "".join(
        f"<tr><td>{escape(query['name'])}</td>"
        + "".join(f"<td>{escape(text_of(query[name]))}</td>" for name in COLUMNS)
        + f"<td>{_verdict(query)}</td></tr>"
        for query in queries
    )
    return f"<table><tr>{heads}</tr>{rows}</table>"


def _verdict(query: Mapping[str, Any]) -> str:
    return "<span class='right'>exact</span>" if query["is_exact"] else "<span class='wrong'>differs</span>"


def _section(query: Mapping[str, Any], outcome: QueryOutcome) -> str:
    difference = query["first_difference"]
    paragraph = f"<p class='wrong'>{escape(difference)}</p>" if difference else ""
    refused = "".join(f"<li>{escape(reason)}: {count:,}</li>" for reason, count in query["rejected_by_reason"].items())
    plots = _plots(outcome).to_html(full_html=False, include_plotlyjs=False, config=PLOT_CONFIG)
    return (
        f"<h2>{escape(query['name'])}</h2>{paragraph}<pre>{escape(outcome.query.text)}</pre>"
        f"<p>Every one of {query['probes_checked']:,} probes was checked. Rows came as {escape(query['messages'])} "
        f"messages. Throughput is that of {query['tuples_window_full']:,} tuples sent at full speed, after the window "
        f"was full; latency, from a row's message to its result, that of {query['latency_tuples']:,} tuples sent at a "
        f"pace below it.</p>{f'<p>Refused rows:</p><ul>{refused}</ul>' if refused else ''}{plots}{_services(query)}"
    )


def _plots(outcome: QueryOutcome) -> go.Figure:
    """Plots of tuples and matches over time, and of the distribution of latencies."""
    marks = timeline(outcome.trace)
    start = marks[0].produced_ms if marks else 0
    seconds = [(mark.produced_ms - start) / 1000 for mark in marks]
    latencies, shares = latency_curve(outcome.trace, outcome.full_speed_tuples)
    plot = make_subplots(1, 3, subplot_titles=("tuples out", "matches out", "latency: % of tuples not later"))
    plot.add_scatter(x=seconds, y=[mark.tuples for mark in marks], row=1, col=1)
    plot.add_scatter(x=seconds, y=[mark.matches for mark in marks], row=1, col=2)
    plot.add_scatter(x=latencies, y=shares, row=1, col=3)
    for column, title in ((1, "s"), (2, "s"), (3, "ms")):
        plot.update_xaxes(title_text=title, row=1, col=column)
    return plot.update_layout(showlegend=False, height=340, margin={"t": 40, "b": 40}, template="simple_white")


def _services(query: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{used['cpu_us_per_tuple']:.2f}</td>"
        f"<td>{used['peak_rss_bytes'] / (1 << 20):,.0f}</td></tr>"
        for name, used in query["services"].items()
    )
    return f"<table><tr><th>service</th><th>CPU us a tuple</th><th>peak memory MiB</th></tr>{rows}</table>"


def text_of(value: object) -> str:
    """A figure for people."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "-")
