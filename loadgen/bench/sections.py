"""A benchmark consists of sections that run one after the other; if one fails, the others still count."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import Console

from loadgen import machine
from spojoin.local.supervise import ending_on_signals

Sizes = TypeVar("Sizes")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class SectionContext(Generic[Sizes]):
    """sizes: of the measurements; scratch: the section's own folder; shared: a folder for all sections."""

    sizes: Sizes
    scratch: Path
    shared: Path
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Section(Generic[Sizes, Found]):
    """measure: yields its findings one by one, so that a failure keeps the earlier findings.

    seconds: its duration, if known beforehand
    """

    name: str
    measure: Callable[[SectionContext[Sizes]], Iterable[Found]]
    seconds: float | None = None


@dataclass(slots=True)
class SectionResult(Generic[Found]):
    """A section's findings and its duration; after a failure, the traceback and the findings until then."""

    name: str
    found: list[Found] = field(default_factory=list)
    seconds: float = 0.0
    failure: str | None = None
    error: Exception | None = None


@dataclass(slots=True)
class BenchResults(Generic[Sizes, Found]):
    """One run of a benchmark on one machine."""

    machine: Mapping[str, str | int | float]
    started: str
    sizes: Sizes
    sections: list[SectionResult[Found]] = field(default_factory=list)

    @property
    def found(self) -> list[Found]:
        """The findings of all sections."""
        return [each for section in self.sections for each in section.found]

    def raise_failures(self) -> None:
        """Raise the section's exception, or an ExceptionGroup if several sections failed."""
        failed = [section for section in self.sections if section.error is not None]
        errors = [section.error for section in failed if section.error is not None]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"failed: {', '.join(section.name for section in failed)}", errors)


def measure(
    sections: Sequence[Section[Sizes, Found]],
    sizes: Sizes,
    console: Console,
    show: Callable[[Found], None],
    keep: Callable[[BenchResults[Sizes, Found]], None] = lambda _: None,
) -> BenchResults[Sizes, Found]:
    """Run the sections. show: called with each finding; keep: called after each section, with all results so far."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    results: BenchResults[Sizes, Found] = BenchResults(machine.describe(), started, sizes)
    began_s = time.monotonic()
    with ending_on_signals(), tempfile.TemporaryDirectory(prefix="spojoin-bench-") as folder:
        shared = Path(folder) / "shared"
        shared.mkdir()
        for number, section in enumerate(sections):
            left = minutes_left(sections, number, time.monotonic() - began_s)
            console.rule(f"{section.name}, {number + 1} of {len(sections)}{left}")
            scratch = Path(folder) / str(number)
            scratch.mkdir()
            result: SectionResult[Found] = SectionResult(section.name)
            results.sections.append(result)
            section_began_s = time.perf_counter()
            try:
                for found in section.measure(SectionContext(sizes, scratch, shared, console.log)):
                    result.found.append(found)
                    show(found)
            except Exception as error:  # noqa: BLE001  (raised by `raise_failures` after the other sections)
                result.error, result.failure = error, "".join(traceback.format_exception(error))
            result.seconds = time.perf_counter() - section_began_s
            keep(results)
    return results


def minutes_left(sections: Sequence[Section[Sizes, Found]], done: int, elapsed_s: float) -> str:
    """The time left in words, from known durations or the pace so far; empty if neither is known."""
    rest = [section.seconds for section in sections[done:]]
    known = [seconds for seconds in rest if seconds is not None]
    if len(known) == len(rest):
        left_s = sum(known)
    elif done:
        left_s = elapsed_s / done * len(rest)
    else:
        return ""
    return f", about {left_s / 60:.0f} minutes left" if left_s >= 60 else ", less than a minute left"
