"""The report of `loadgen soak`: Markdown tables and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadgen.chaos.gaps import percentile
from loadgen.chaos.listener import Arrival
from loadgen.chaos.soak import DoneAct
from loadgen.chaos.soak_plan import Act
from loadgen.chaos.soak_watch import GROWTH_MAX, DiskWatch, Growth

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SoakOutcome:
    """A whole soak.

    about: what ran where, by name; arrivals: of results; rows: sent; wrong: tuples that differ from the definition
    growth: of memory, by setup; peaks: of memory, by process; stuck: what never came, if anything
    """

    about: Mapping[str, object]
    done: Sequence[DoneAct]
    arrivals: Sequence[Arrival]
    rows: int
    wrong: int
    differences: Sequence[str]
    growth: Mapping[str, Growth]
    peaks: Mapping[str, int]
    disk: DiskWatch
    stuck: str | None

    @property
    def answered(self) -> int:
        """Rows with a result."""
        return self.arrivals[-1].tuples if self.arrivals else 0

    @property
    def failures(self) -> list[str]:
        """What isn't as it should be, in sentences."""
        found = [self.stuck] if self.stuck else []
        if self.answered < self.rows:
            found.append(f"{self.rows - self.answered:,} rows have no result")
        if self.wrong or self.differences:
            found.append(f"{self.wrong:,} tuples differ from the definition: {'; '.join(self.differences)}")
        for setup, growth in self.growth.items():
            if not growth.is_bounded:
                found.append(f"memory of {setup} grew by {growth.share:.1%}, more than {GROWTH_MAX:.0%}")
        for partition, peak in sorted(self.disk.beyond.items()):
            found.append(f"{partition} took {_mib(peak)} MiB of the disk, more than it may")
        return found

    @property
    def is_passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def markdown(outcome: SoakOutcome) -> str:
    """Acts, memory, disk and the verdict."""
    return "\n".join(
        [
            "; ".join(f"{name} {value}" for name, value in outcome.about.items()),
            "",
            "| act | times | recovered | recovered in, median s | slowest s | longest gap, ms |",
            "|---|---:|---:|---:|---:|---:|",
            *_acts(outcome),
            "",
            "| setup | samples of memory at rest | first tenth, MiB | most of a later tenth, MiB | growth |",
            "|---|---:|---:|---:|---:|",
            *(_memory(setup, growth) for setup, growth in outcome.growth.items()),
            "",
            *_peaks(outcome),
            *_disk(outcome.disk),
            "",
            f"{outcome.answered:,} of {outcome.rows:,} rows answered in order, once, under their keys, and every count "
            f"recomputed: {outcome.wrong:,} differ",
            "passed" if outcome.is_passed else "FAILED: " + "\n".join(outcome.failures),
        ]
    )


def _acts(outcome: SoakOutcome) -> Iterator[str]:
    for act in Act:
        of_kind = [done for done in outcome.done if done.planned.act is act]
        if not of_kind or not outcome.arrivals:
            continue
        found = [done.recovered_s(outcome.arrivals) for done in of_kind]
        times = [seconds for seconds in found if seconds is not None]
        gap_ms = max(done.gap_ms(outcome.arrivals) for done in of_kind)
        slowest = f"{percentile(times, 50):.1f} | {max(times):.1f}" if times else "- | -"
        yield f"| {act.about} | {len(of_kind)} | {len(times)} | {slowest} | {gap_ms:,.0f} |"


def _memory(setup: str, growth: Growth) -> str:
    if growth.share is None:
        return f"| {setup} | {growth.samples} | {_mib(growth.first_bytes)} | - | too few samples |"
    sizes = f"{_mib(growth.first_bytes)} | {_mib(growth.most_bytes)}"
    return f"| {setup} | {growth.samples} | {sizes} | {growth.share:+.1%} |"


def _peaks(outcome: SoakOutcome) -> Iterator[str]:
    if outcome.peaks:
        peaks = ", ".join(f"{name} {_mib(peak)}" for name, peak in sorted(outcome.peaks.items()))
        yield f"Most memory of a process at rest, MiB: {peaks}."


def _disk(disk: DiskWatch) -> Iterator[str]:
    if disk.totals:
        largest = sorted(disk.peaks.items(), key=lambda item: item[1], reverse=True)[:4]
        named = ", ".join(f"{name} {_mib(peak)}" for name, peak in largest)
        yield (
            f"Disk, MiB: {_mib(disk.totals[len(disk.totals) // 2])} at half time, {_mib(disk.totals[-1])} at the end, "
            f"at most {_mib(max(disk.totals))}; the largest partitions: {named}; beyond limits: {len(disk.beyond)}."
        )


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f}"
