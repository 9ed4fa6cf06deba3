"""What was measured, as JSON for machines and as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table

from loadgen.promises.figures import Bar, Measurement
from loadgen.promises.sizes import PromiseSizes

HEADINGS = ("section", "what", "measured", "unit", "bar", "verdict", "how")


@dataclass(frozen=True, slots=True)
class SectionResult:
    """A section's figures, its duration, and where it failed its traceback; its figures are those before that."""

    name: str
    figures: list[Measurement] = field(default_factory=list)
    seconds: float = 0.0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the benchmark on one machine."""

    machine: Mapping[str, str | int | float]
    sizes: PromiseSizes
    started: str
    sections: Sequence[SectionResult]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Cells under HEADINGS, a failed section's last."""
        for section in self.sections:
            for figure in section.figures:
                bar, verdict = self._judged(figure)
                yield section.name, figure.name, number(figure.value), figure.unit, bar, verdict, figure.note
            if section.failure:
                yield section.name, section.failure.strip().splitlines()[-1], "-", "", "", "FAILED", ""

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data; `bar` and `met` are null where there is no bar."""
        return {
            "machine": dict(self.machine),
            "started": self.started,
            "is_judged": self.sizes.is_judged,
            "sizes": asdict(self.sizes),
            "sections": [self._section(section) for section in self.sections],
        }

    def _section(self, section: SectionResult) -> dict[str, Any]:
        figures = [self._figure(figure) for figure in section.figures]
        return {
            "name": section.name,
            "seconds": round(section.seconds, 1),
            "failure": section.failure,
            "figures": figures,
        }

    def _figure(self, figure: Measurement) -> dict[str, Any]:
        bar = figure.bar if self.sizes.is_judged else None
        judged = {"met": None, "margin": None} if bar is None else _verdict(bar, figure.value)
        return {**asdict(figure), "bar": None if bar is None else asdict(bar), **judged}

    def _judged(self, figure: Measurement) -> tuple[str, str]:
        if figure.bar is None:
            return "", ""
        bar = describe_bar(figure.bar)
        return (bar, describe_verdict(figure.bar, figure.value)) if self.sizes.is_judged else (bar, "small sizes")


def describe_bar(bar: Bar) -> str:
    """Such as "at least 100,000 (reach for 250,000)"."""
    goal = f" (reach for {number(bar.goal)})" if bar.goal is not None else ""
    return f"{bar.direction} {number(bar.limit)}{goal}"


def describe_verdict(bar: Bar, value: float) -> str:
    """Whether a bar is met, and by how much of it."""
    word = "met" if bar.is_met(value) else "MISSED"
    return f"{word} by {abs(bar.margin(value)):.0%}"


def number(value: float) -> str:
    """Three significant digits for people, more for large numbers."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(report: Report) -> Table:
    """The figures for a terminal; how they were measured is in the other two."""
    shown = Table(title=_machine_line(report), title_justify="left", caption_justify="left")
    for heading in HEADINGS[:-1]:
        shown.add_column(heading, justify="right" if heading == "measured" else "left", overflow="fold")
    for row in report.rows():
        shown.add_row(*row[:-1], style="bold red" if row[5].startswith(("MISSED", "FAILED")) else None)
    return shown


def write_json(report: Report, folder: Path) -> Path:
    """Write `bench.json` into `folder`, which is created if needed; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    path.write_bytes(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def write_markdown(report: Report, path: Path) -> None:
    """Write a page with the machine and all figures, to keep beside the code."""
    lines = [
        "# Measured",
        "",
        "Made by `make bench`; ratios are within one run, absolute figures belong to the machine named here.",
        "",
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in {**report.machine, "at": report.started}.items()),
        "",
        _markdown_row(HEADINGS),
        _markdown_row(["---:" if heading == "measured" else "---" for heading in HEADINGS]),
        *(_markdown_row(row) for row in report.rows()),
        "",
    ]
    path.write_text("\n".join(lines))


def _verdict(bar: Bar, value: float) -> dict[str, bool | float]:
    return {"met": bar.is_met(value), "margin": round(bar.margin(value), 4)}


def _machine_line(report: Report) -> str:
    machine = report.machine
    size = f"{machine['cores']} cores, {int(machine['memory_mib']) / 1024:.0f} GiB"
    return f"{machine['cpu']}, {size}, Python {machine['python']}, load {machine['load_average_1min']} at the start"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
