from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from loadgen import machine
from loadgen.bench.measurement import Measurement, at_least, at_most
from loadgen.bench.sections import BenchResults, Section, SectionContext, SectionResult, measure
from loadgen.promises import session
from loadgen.promises.commands import NAMES
from loadgen.promises.report import publish, write_json
from loadgen.promises.sizes import FULL, QUICK

FIGURES = [
    Measurement("fast", 250.0, "times", at_least(200)),
    Measurement("slow", 150.0, "times", at_least(200)),
    Measurement("late", 180.0, "ms", at_most(150), "with a | in it"),
    Measurement("plain", 0.1234, "us"),
]


def results_of(sizes=FULL, failure: str | None = None, names=("one", "two"), day=1):
    sections = [SectionResult(names[0], FIGURES, 1.0), SectionResult(names[1], FIGURES[:1], 1.0, failure)]
    return BenchResults(machine.describe(), f"2026-01-0{day}T00:00:00+00:00", sizes, sections)


def test_json_names_machine_sizes_and_verdicts(tmp_path: Path) -> None:
    written = orjson.loads(write_json(results_of(), tmp_path / "new").read_bytes())
    assert written["machine"]["memory_mib"] > 0
    assert written["sizes"]["window"] == FULL.window
    figures = {figure["name"]: figure for figure in written["sections"][0]["figures"]}
    assert [figures[name]["met"] for name in ("fast", "slow", "late", "plain")] == [True, False, False, None]
    assert figures["slow"]["margin"] == -0.25
    assert figures["late"]["bar"] == {"direction": "at most", "limit": 150, "goal": None}
    small = orjson.loads(write_json(results_of(QUICK), tmp_path).read_bytes())
    assert {figure["met"] for section in small["sections"] for figure in section["figures"]} == {None}


def test_a_page_keeps_its_own_text_and_older_runs_of_sections_that_were_not_measured_again(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# By hand\n\n| one | of the hand |\n\n")
    for day, names in ((1, ("one", "two")), (2, ("two", "three")), (3, ("two", "three"))):
        publish(write_json(results_of(names=names, day=day), tmp_path), page)
    headings = [line for line in page.read_text().splitlines() if line.startswith("#")]
    assert headings == ["# By hand", "## Measured", "### 2026-01-03: two, three", "### 2026-01-01: one"]
    assert page.read_text().startswith("# By hand\n\n| one | of the hand |\n\n## Measured\n\nMade by")
    assert page.read_text().count("| one | ") == len(FIGURES) + 1
    assert page.read_text().count("| two | ") == len(FIGURES)


def good(context: SectionContext) -> Iterator[Measurement]:
    assert context.scratch.is_dir()
    yield FIGURES[0]


def breaks(_context: SectionContext) -> Iterator[Measurement]:
    yield FIGURES[3]
    raise ValueError("nothing there")


def gone(_context: SectionContext) -> Iterator[Measurement]:
    raise ModuleNotFoundError("no such section")


def measured(**sections):
    shown: list[Measurement] = []
    made = [Section(name, measure_it) for name, measure_it in sections.items()]
    return measure(made, QUICK, Console(quiet=True), shown.append), shown


def test_a_failing_section_hides_no_other_and_is_raised_at_the_end() -> None:
    results, shown = measured(gone=gone, broken=breaks, good=good)
    assert [(section.name, section.found) for section in results.sections] == [
        ("gone", []),
        ("broken", FIGURES[3:]),
        ("good", FIGURES[:1]),
    ]
    assert shown == results.found == [FIGURES[3], FIGURES[0]]
    assert "nothing there" in (results.sections[1].failure or "")
    with pytest.raises(ExceptionGroup, match="gone, broken") as caught:
        results.raise_failures()
    assert [type(error) for error in caught.value.exceptions] == [ModuleNotFoundError, ValueError]
    measured(good=good)[0].raise_failures()
    with pytest.raises(ValueError, match="nothing there"):
        measured(broken=breaks)[0].raise_failures()


@pytest.mark.parametrize("name", NAMES)
def test_every_section_can_be_loaded(name: str) -> None:
    assert callable(__import__(f"loadgen.promises.{name}", fromlist=["measure"]).measure)
    assert session.section(name).name == name
