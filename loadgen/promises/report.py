"""The measurements as JSON for machines and as a table for people.

`python -m loadgen.promises.report bench.json README.md` brings a run's sections into a page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table

from loadgen.bench.measurement import Measurement
from loadgen.bench.pages import markdown_row, number
from loadgen.bench.sections import BenchResults
from loadgen.promises.sizes import PromiseSizes

HEADINGS = ("section", "what", "measured", "unit", "bar", "verdict", "how")
Results = BenchResults[PromiseSizes, Measurement]
#: What stands above the runs on a page; publishing keeps all text before it.
_HEADING = "## Measured\n"
_INTRODUCTION = f"""\
{_HEADING}
Made by `loadgen promises --publish`, as is all that follows; write by hand above. Ratios are within one run, absolute
figures belong to the machine that is named there.
"""
_RUN = "### "


def as_json(results: Results) -> dict[str, Any]:
    """The results as plain data; `bar` and `met` are null if there is no bar."""
    is_judged = results.sizes.is_judged

    def figure(found: Measurement) -> dict[str, Any]:
        bar = found.bar if is_judged else None
        if bar is None:
            return {**asdict(found), "bar": None, "met": None, "margin": None}
        margin = round(bar.margin(found.value), 4)
        return {**asdict(found), "bar": asdict(bar), "met": bar.is_met(found.value), "margin": margin}

    return {
        "machine": dict(results.machine),
        "started": results.started,
        "is_judged": is_judged,
        "sizes": asdict(results.sizes),
        "sections": [
            {
                "name": section.name,
                "seconds": round(section.seconds, 1),
                "failure": section.failure,
                "figures": [figure(found) for found in section.found],
            }
            for section in results.sections
        ],
    }


def rows(measured: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The cells of a run in the order of HEADINGS; a failed section's row comes last."""
    for section in measured["sections"]:
        for figure in section["figures"]:
            bar, verdict = "", ""
            if promised := figure["bar"]:
                goal = f" (reach for {number(promised['goal'])})" if promised["goal"] is not None else ""
                bar = f"{promised['direction']} {number(promised['limit'])}{goal}"
                verdict = f"{'met' if figure['met'] else 'MISSED'} by {abs(figure['margin']):.0%}"
            value = number(figure["value"])
            yield section["name"], figure["name"], value, figure["unit"], bar, verdict, figure["note"]
        if section["failure"]:
            yield section["name"], section["failure"].strip().splitlines()[-1], "-", "", "", "FAILED", ""


def table(results: Results) -> Table:
    """The figures for a terminal, without notes on the measurements."""
    about = results.machine
    size = f"{about['cores']} cores, {int(about['memory_mib']) / 1024:.0f} GiB"
    title = f"{about['cpu']}, {size}, Python {about['python']}, load {about['load_average_1min']} at the start"
    shown = Table(title=title, title_justify="left", caption_justify="left")
    for heading in HEADINGS[:-1]:
        shown.add_column(heading, justify="right" if heading == "measured" else "left", overflow="fold")
    for row in rows(as_json(results)):
        shown.add_row(*row[:-1], style="bold red" if row[5].startswith(("MISSED", "FAILED")) else None)
    return shown


def write_json(results: Results, folder: Path) -> Path:
    """Write `bench.json` into `folder`, which is created if needed; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    path.write_bytes(orjson.dumps(as_json(results), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def publish(measured: Path, page: Path) -> None:
    """Write a run into the page; text above the runs stays, and so do sections that it hasn't measured."""
    found = orjson.loads(measured.read_bytes())
    new = {section["name"] for section in found["sections"]}
    runs = [run(found)]
    written, _, published = (page.read_text() if page.exists() else "").partition(_HEADING)
    for old in published.split(f"\n{_RUN}")[1:]:
        lines = [line for line in old.splitlines() if _section(line) not in new]
        if left := list(dict.fromkeys(filter(None, map(_section, lines)))):
            started = lines[0].partition(":")[0]
            runs.append("\n".join([f"{_RUN}{started}: {', '.join(left)}", *lines[1:], ""]))
    page.write_text(written + "\n".join([_INTRODUCTION, *runs]))


def run(measured: Mapping[str, Any]) -> str:
    """A run as part of a page: its sections and time, the machine, and all figures."""
    names = ", ".join(section["name"] for section in measured["sections"])
    return "\n".join(
        [
            f"{_RUN}{measured['started'].partition('T')[0]}: {names}",
            "",
            *(f"- {name.replace('_', ' ')}: {value}" for name, value in measured["machine"].items()),
            f"- at: {measured['started']}",
            "",
            markdown_row(HEADINGS),
            markdown_row(["---:" if heading == "measured" else "---" for heading in HEADINGS]),
            *map(markdown_row, rows(measured)),
            "",
        ]
    )


def _section(line: str) -> str:
    """The section of a table's row; empty for other lines."""
    found = re.match(r"\| (\w+) \|", line)
    return "" if found is None or found[1] == HEADINGS[0] else found[1]


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
