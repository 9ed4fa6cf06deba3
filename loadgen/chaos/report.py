"""The report of a campaign: a table for people, JSON for machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from loadgen.chaos.campaign import CampaignOutcome, CampaignProgress, Struck
from loadgen.chaos.plan import FaultKind
from loadgen.load.progress import LINE_S, Every


def as_json(outcome: CampaignOutcome, about: Mapping[str, object]) -> dict[str, object]:
    """A campaign for machines."""
    return {
        **about,
        "faults_planned": outcome.planned,
        "faults": len(outcome.struck),
        "survived": outcome.survived,
        "divergences": outcome.divergences,
        "rows": outcome.rows,
        "answered_or_refused": outcome.out,
        "seconds": round(outcome.seconds, 1),
        "verdict": outcome.verdict.as_json(),
        "schedule": [
            {**asdict(s.fault), "began_s": _rounded(s.began_s), "recovered_s": _rounded(s.recovered_s)}
            for s in outcome.struck
        ],
    }


def write(outcome: CampaignOutcome, about: Mapping[str, object], folder: Path) -> Path:
    """Write chaos.json into `folder`; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "chaos.json"
    path.write_bytes(orjson.dumps(as_json(outcome, about), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def table(outcome: CampaignOutcome, title: str) -> Table:
    """Faults by kind."""
    summary = f"{outcome.survived} of {outcome.planned} faults survived, divergences ({outcome.divergences})"
    shown = Table(title=f"{title}: {summary}", title_justify="left")
    shown.add_column("fault")
    for heading in ("times", "survived", "recovered in, median s", "slowest s"):
        shown.add_column(heading, justify="right")
    for kind in FaultKind:
        of_kind = [struck for struck in outcome.struck if struck.fault.kind is kind]
        if of_kind:
            shown.add_row(kind.about, *_cells(of_kind))
    return shown


def _cells(struck: list[Struck]) -> tuple[str, ...]:
    times = sorted(each.recovered_s for each in struck if each.recovered_s is not None)
    middle = f"{times[len(times) // 2]:.1f}" if times else "-"
    return str(len(struck)), str(len(times)), middle, f"{times[-1]:.1f}" if times else "-"


def checked(outcome: CampaignOutcome) -> str:
    """What was sent and checked, line by line."""
    verdict = outcome.verdict
    lines = [
        f"{outcome.rows:,} rows sent, {outcome.out:,} of them answered or refused, in {outcome.seconds:.0f} s",
        f"{verdict.probes_checked:,} probes with {verdict.matches:,} matches recomputed: completeness "
        f"{verdict.completeness:.6f}, false positives {verdict.false_positives:,}, duplicates {verdict.duplicates:,}, "
        f"out of order {verdict.misordered:,}, records written again {verdict.resent:,}",
    ]
    if verdict.output_sha256:
        lines.append(f"sha256 of the output {verdict.output_sha256}")
    if verdict.oracle_sha256:
        lines.append(f"sha256 of the definition {verdict.oracle_sha256}")
    if verdict.first_difference:
        lines.append(f"first difference: {verdict.first_difference}")
    return "\n".join(lines)


def progress_lines(console: Console) -> Callable[[CampaignProgress], None]:
    """A line every LINE_S."""
    every = Every(LINE_S)

    def show(progress: CampaignProgress) -> None:
        if not every():
            return
        survived = sum(each.is_survived for each in progress.struck)
        console.print(
            f"{progress.seconds:7.1f} s  rows in {progress.rows:,}, out {progress.out:,}, "
            f"faults {len(progress.struck)} of {progress.planned}, survived {survived}",
            highlight=False,
            soft_wrap=True,
        )

    return show


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
