from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from loadgen import machine
from loadgen.promises.context import Context
from loadgen.promises.figures import Measurement, at_least, at_most
from loadgen.promises.report import Report, SectionResult, table, write_json, write_markdown
from loadgen.promises.sections import NAMES, load, run_all
from loadgen.promises.sizes import FULL, QUICK

FIGURES = [
    Measurement("fast", 250.0, "times", at_least(200)),
    Measurement("slow", 150.0, "times", at_least(200)),
    Measurement("late", 180.0, "ms", at_most(150), "with a | in it"),
    Measurement("plain", 0.1234, "us"),
]


def report_of(sizes=FULL, failure: str | None = None) -> Report:
    sections = [SectionResult("one", FIGURES, 1.0), SectionResult("two", FIGURES[:1], 1.0, failure)]
    return Report(machine.describe(), sizes, "2026-01-01T00:00:00+00:00", sections)


@pytest.mark.parametrize(
    ("bar", "value", "met", "margin"),
    [
        (at_least(200), 200, True, 0.0),
        (at_least(200), 150, False, -0.25),
        (at_most(150), 75, True, 0.5),
        (at_most(150), 165, False, -0.1),
    ],
)
def test_bars_show_the_margin(bar, value: float, met: bool, margin: float) -> None:
    assert bar.is_met(value) is met
    assert bar.margin(value) == pytest.approx(margin)


def test_json_names_machine_sizes_and_verdicts(tmp_path: Path) -> None:
    written = orjson.loads(write_json(report_of(), tmp_path / "new").read_bytes())
    assert written["machine"]["cores"] >= 1
    assert written["machine"]["memory_mib"] > 0
    assert written["machine"]["numpy"]
    assert written["sizes"] == dataclasses.asdict(FULL)
    figures = {figure["name"]: figure for figure in written["sections"][0]["figures"]}
    assert [figures[name]["met"] for name in ("fast", "slow", "late", "plain")] == [True, False, False, None]
    assert figures["slow"]["margin"] == -0.25
    assert figures["late"]["bar"] == {"direction": "at most", "limit": 150, "goal": None}


def test_small_sizes_are_not_judged(tmp_path: Path) -> None:
    written = orjson.loads(write_json(report_of(QUICK), tmp_path).read_bytes())
    assert {figure["met"] for section in written["sections"] for figure in section["figures"]} == {None}
    assert all("MISSED" not in cell for row in report_of(QUICK).rows() for cell in row)


def test_table_and_page_show_bar_and_verdict(tmp_path: Path) -> None:
    made = report_of(failure="Traceback\nValueError: nothing there\n")
    console = Console(width=250, record=True)
    console.print(table(made))
    write_markdown(made, tmp_path / "RESULTS.md")
    page = (tmp_path / "RESULTS.md").read_text()
    for text in (console.export_text(), page):
        for expected in ("at least 200", "met by 25%", "MISSED by 25%", "MISSED by 20%", "FAILED", "nothing there"):
            assert expected in text
    assert "with a \\| in it" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1


def good(context: Context) -> Iterator[Measurement]:
    yield FIGURES[0]


def breaks(context: Context) -> Iterator[Measurement]:
    yield FIGURES[3]
    raise ValueError("nothing there")


def missing() -> Callable[[Context], Iterator[Measurement]]:
    raise ModuleNotFoundError("no such section")


def test_a_failing_section_hides_no_other_and_is_raised_at_the_end(tmp_path: Path) -> None:
    kept: list[SectionResult] = []
    shown: list[Measurement] = []
    sections = {"gone": missing, "broken": lambda: breaks, "good": lambda: good}
    with pytest.raises(ExceptionGroup, match="gone, broken") as caught:
        run_all(sections, lambda _: Context(QUICK, tmp_path, print), shown.append, kept.extend)
    assert [type(error) for error in caught.value.exceptions] == [ModuleNotFoundError, ValueError]
    assert [(result.name, result.figures) for result in kept] == [
        ("gone", []),
        ("broken", FIGURES[3:]),
        ("good", FIGURES[:1]),
    ]
    assert "nothing there" in (kept[1].failure or "")
    assert kept[2].failure is None
    assert shown == [FIGURES[3], FIGURES[0]]


def test_nothing_is_raised_where_nothing_fails(tmp_path: Path) -> None:
    kept: list[SectionResult] = []
    run_all({"good": lambda: good}, lambda _: Context(QUICK, tmp_path, print), lambda _: None, kept.extend)
    assert [result.failure for result in kept] == [None]


@pytest.mark.parametrize("name", NAMES)
def test_every_section_can_be_loaded(name: str) -> None:
    assert callable(load(name))
