"""The comparison of engines for a terminal, as an HTML page, and as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from rich.table import Table

from loadgen.bench.pages import facts, html_page, number
from loadgen.engines.runner import EngineOutcome
from loadgen.engines.variants import VARIANTS
from loadgen.engines.workloads import QUESTIONS
from spojoin.model import DEFAULT_METHOD

HEADINGS = (
    "question", "variant", "window", "engine", "version", "processor_us_a_tuple", "ratio", "tuples_per_second",
    "probes_checked", "matches", "fill_s", "peak_rss_mib", "message",
)  # fmt: skip
#: The engine by whose figure the others are divided, if it was run.
BASE = DEFAULT_METHOD
#: An engine that reached fewer probes wasn't warm; its figure gets a tilde.
WARM_PROBES = 1_024
#: Colour markup of terminals.
_MARKUP = re.compile(r"\[/?(?:red)?\]")
#: Characters of a message's first words that a table's cell shows.
KIND_MAX = 12
PAGE = "benchmark.html"


def ratios(outcomes: Sequence[EngineOutcome]) -> dict[tuple[str, str, int], float]:
    """By (engine, workload, window): the processor time per tuple, divided by BASE's."""
    own = {(o.workload, o.window): o.cpu_us for o in outcomes if o.engine == BASE}
    return {
        (o.engine, o.workload, o.window): o.cpu_us / base
        for o in outcomes
        if o.cpu_us is not None and (base := own.get((o.workload, o.window)))
    }


def tables(outcomes: Sequence[EngineOutcome]) -> Iterator[Table | str]:
    """A table for each question and window, followed by the refusals."""
    times = ratios(outcomes)
    for question, window in dict.fromkeys((o.workload.partition("-")[0], o.window) for o in outcomes):
        rows = [o for o in outcomes if o.window == window and o.workload.startswith(f"{question}-")]
        variants = [name for name in VARIANTS if any(o.workload == f"{question}-{name}" for o in rows)]
        title = f"{question}, {QUESTIONS[question].about}; W = {window:,}; processor us a tuple (times {BASE}'s)"
        table = Table(title=title, title_justify="left")
        table.add_column("engine", min_width=max(len(o.engine) for o in rows))
        for variant in variants:
            table.add_column(variant, justify="right")
        for engine in dict.fromkeys(o.engine for o in rows):
            of_engine = {o.workload.partition("-")[2]: o for o in rows if o.engine == engine}
            table.add_row(engine, *(_cell(of_engine.get(variant), times) for variant in variants))
        yield table
        yield from _messages(rows)


def write(outcomes: Sequence[EngineOutcome], about: Mapping[str, object], folder: Path) -> Path:
    """Write benchmark.html, .csv and .md into a folder, which is created if needed; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(_rows(outcomes))
    with (folder / "benchmark.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADINGS)
        writer.writerows(rows)
    (folder / "benchmark.md").write_text("\n".join(_markdown(outcomes)), encoding="utf-8")
    path = folder / PAGE
    path.write_text(_page(rows, about), encoding="utf-8")
    return path


def _markdown(outcomes: Sequence[EngineOutcome]) -> Iterator[str]:
    """A table for each window with a column for each workload, as in README.md."""
    times = ratios(outcomes)
    for window in dict.fromkeys(o.window for o in outcomes):
        found = {(o.engine, o.workload): o for o in outcomes if o.window == window}
        workloads = list(dict.fromkeys(workload for _, workload in found))
        yield f"W = {window:,}\n"
        yield f"| engine | {' | '.join(name.replace('-', ' ') for name in workloads)} |"
        yield f"|---{'|---:' * len(workloads)}|"
        for engine in dict.fromkeys(engine for engine, _ in found):
            cells = [_text(found.get((engine, workload)), times) for workload in workloads]
            yield f"| `{engine}` | {' | '.join(cells)} |"
        yield ""


def _text(outcome: EngineOutcome | None, times: Mapping[tuple[str, str, int], float]) -> str:
    return _MARKUP.sub("", _cell(outcome, times))


def _cell(outcome: EngineOutcome | None, times: Mapping[tuple[str, str, int], float]) -> str:
    if outcome is None:
        return ""
    if outcome.cpu_us is None:
        kind = outcome.message.partition(":")[0]
        return f"[red]{kind if len(kind) <= KIND_MAX else 'no figure'}[/]"
    ratio = times.get((outcome.engine, outcome.workload, outcome.window))
    cold = "~" if outcome.marks[-1].probes < WARM_PROBES else ""
    return cold + number(outcome.cpu_us) + (f" ({number(ratio)})" if ratio is not None else "")


def _messages(rows: Sequence[EngineOutcome]) -> Iterator[str]:
    said: dict[tuple[str, str], list[str]] = {}
    for outcome in rows:
        if outcome.message:
            said.setdefault((outcome.engine, outcome.message), []).append(outcome.workload.partition("-")[2])
    for (engine, message), variants in said.items():
        yield f"{engine} ({', '.join(variants)}): {message}"


def _rows(outcomes: Sequence[EngineOutcome]) -> Iterator[tuple[object, ...]]:
    times = ratios(outcomes)
    for o in outcomes:
        question, _, variant = o.workload.partition("-")
        ratio = times.get((o.engine, o.workload, o.window))
        last = o.marks[-1] if o.marks and not o.message else None
        yield (
            question,
            variant,
            o.window,
            o.engine,
            o.version,
            "" if o.cpu_us is None else round(o.cpu_us, 4),
            "" if ratio is None else round(ratio, 3),
            "" if o.tuples_per_second is None else round(o.tuples_per_second),
            "" if last is None else last.probes,
            "" if last is None else last.total,
            round(o.fill_s, 1),
            o.peak_rss_bytes >> 20,
            o.message,
        )


def _page(rows: Sequence[tuple[object, ...]], about: Mapping[str, object]) -> str:
    heads = "".join(f"<th>{escape(head.replace('_', ' '))}</th>" for head in HEADINGS[3:-1])
    parts = []
    for key in dict.fromkeys(row[:3] for row in rows):
        question, variant, window = key
        lines = "".join(_line(row) for row in rows if row[:3] == key)
        parts.append(
            f"<h2>{question}, {variant}, W = {window:,}</h2>"
            f"<p>{escape(QUESTIONS[str(question)].about)}; {escape(VARIANTS[str(variant)].about)}</p>"
            f"<table><tr>{heads}</tr>{lines}</table>"
        )
    said = "Every figure's totals equal the published ones."
    body = f"<p>{facts(about)}</p><p>{said} <a href='benchmark.csv'>benchmark.csv</a></p>{''.join(parts)}"
    return html_page("Stream joins side by side", body, style=".wrong td { text-align: left }")


def _line(row: tuple[object, ...]) -> str:
    if row[-1]:
        return f"<tr class='wrong'><td>{row[3]}</td><td>{row[4]}</td><td colspan='7'>{escape(str(row[-1]))}</td></tr>"
    cells = (f"{cell:,}" if isinstance(cell, int | float) else escape(str(cell)) for cell in row[3:-1])
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
