"""All sections by name, and how they are run: each alone, none hiding what another found."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from loadgen.promises.context import Context, Section
from loadgen.promises.figures import Measurement
from loadgen.promises.report import SectionResult

#: In the order of running. A module is imported when its section is run: one that can't be is that section's failure.
NAMES = (
    "scan",
    "probe",
    "slides",
    "encoding",
    "embedded",
    "threads",
    "start",
    "pairs",
    "payload",
    "listing",
    "index",
    "answers",
    "frames",
    "history",
    "services",
    "served",
    "featured",
    "results_source",
)


def load(name: str) -> Section:
    """The section called `name`."""
    return cast("Section", import_module(f"loadgen.promises.{name}").measure)


def run_section(
    name: str, section: Callable[[], Section], context: Context, show: Callable[[Measurement], None]
) -> tuple[SectionResult, Exception | None]:
    """Run one section; what it measured before a failure is kept, and the failure handed back to be raised later.

    `section` returns the section; `show` is called with each figure.
    """
    figures: list[Measurement] = []
    began = time.perf_counter()
    try:
        for figure in section()(context):
            show(figure)
            figures.append(figure)
    except Exception as error:  # noqa: BLE001 - raised by `run_all` when the other sections are through
        trace = "".join(traceback.format_exception(error))
        return SectionResult(name, figures, time.perf_counter() - began, trace), error
    return SectionResult(name, figures, time.perf_counter() - began), None


def run_all(
    sections: Mapping[str, Callable[[], Section]],
    context: Callable[[str], Context],
    show: Callable[[Measurement], None],
    keep: Callable[[list[SectionResult]], None],
) -> None:
    """Run all sections, hand what they found to `keep`, then raise what failed as one ExceptionGroup.

    `context` makes a section's context from its name.
    """
    results, errors = [], []
    for name, section in sections.items():
        result, error = run_section(name, section, context(name), show)
        results.append(result)
        errors += [error] if error else []
    keep(results)
    if errors:
        failed = ", ".join(result.name for result in results if result.failure)
        raise ExceptionGroup(f"failed: {failed}", errors)
