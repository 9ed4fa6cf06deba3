"""The report of `loadgen silence`: a Markdown table, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from loadgen.chaos.gaps import percentile
from loadgen.chaos.silence import ALL, Silence, Strike

#: What is promised of p99 and of the longest silence, in milliseconds: with standbys, and without for kills alone.
P99_MS, MAX_MS, P99_ALONE_MS = 1_000, 1_500, 4_000
#: And of Kafka's restart: the silence beyond the time that it takes itself.
BEYOND_MS = 1_000
#: And of the longest silence around what an operator does.
CHANGED_MS = 3_000


@dataclass(frozen=True, slots=True)
class Exactness:
    """What was checked of the output.

    rows: sent; answered: tuples with a result, in order, once, with their keys
    recomputed: those whose counts were compared with the definition; wrong: tuples that differ
    """

    rows: int
    answered: int
    recomputed: int
    wrong: int
    differences: Sequence[str]

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missing or differs."""
        return self.rows == self.answered and not self.wrong and not self.differences

    def __str__(self) -> str:
        verdict = "exact" if self.is_exact else "NOT exact"
        return (
            f"{verdict}: {self.answered:,} of {self.rows:,} rows answered in order, once, under their keys; "
            f"{self.recomputed:,} counts recomputed, {self.wrong:,} tuples differ"
        )


@dataclass(frozen=True, slots=True)
class SilenceOutcome:
    """A whole run. about: what ran where, by name; usual_ms: gaps without faults."""

    about: Mapping[str, object]
    has_standbys: bool
    usual_ms: Sequence[float]
    found: Sequence[Silence]
    exactness: Exactness

    @property
    def is_passed(self) -> bool:
        """Whether the output is exact; how long the silences are is printed beside their bars."""
        return self.exactness.is_exact


def markdown(outcome: SilenceOutcome) -> str:
    """The table, with what ran above it and the verdict below."""
    lines = [
        "; ".join(f"{name} {value}" for name, value in outcome.about.items()),
        "",
        "| fault | service | times | gap p50, ms | p99, ms | max, ms | all well again, median s | bar: p99, max |",
        "|---|---|---:|---:|---:|---:|---:|---|",
        *_rows(outcome),
        "",
        str(outcome.exactness),
        *outcome.exactness.differences,
    ]
    return "\n".join(lines)


def as_json(outcome: SilenceOutcome) -> dict[str, object]:
    """The run for machines."""
    return {
        **outcome.about,
        "usual_gaps": len(outcome.usual_ms),
        "exact": outcome.exactness.is_exact,
        "exactness": asdict(outcome.exactness),
        "faults": [asdict(found) for found in outcome.found],
    }


def write(outcome: SilenceOutcome, folder: Path) -> None:
    """Write silence.md and silence.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "silence.md").write_text(markdown(outcome) + "\n")
    (folder / "silence.json").write_bytes(orjson.dumps(as_json(outcome), option=orjson.OPT_INDENT_2))


def bar(kind: Strike, *, has_standbys: bool) -> str:
    """What is promised of a kind of fault; of a restart of Kafka, of what is beyond its own time."""
    if kind is Strike.RESTART:
        return f"-, {BEYOND_MS:,}"
    if kind in (Strike.UPGRADE, Strike.REPLACEMENT):
        return f"-, {CHANGED_MS:,}"
    if has_standbys:
        return f"{P99_MS:,}, {MAX_MS:,}"
    return f"{P99_ALONE_MS:,}, -" if kind is Strike.KILL else "-"


def _rows(outcome: SilenceOutcome) -> Iterator[str]:
    if outcome.usual_ms:
        yield f"| none | {ALL} | {len(outcome.usual_ms):,} gaps | {_gaps(outcome.usual_ms)} | - | - |"
    for kind in Strike:
        of_kind = [found for found in outcome.found if found.kind is kind]
        services = list(dict.fromkeys(found.service for found in of_kind))
        groups = {ALL: of_kind} if len(services) != 1 else {}
        groups |= {service: [found for found in of_kind if found.service == service] for service in services}
        for name, group in groups.items():
            if group:
                settled = _settled(kind, group)
                gaps_ms = _gaps([found.gap_ms - found.own_ms for found in group])
                promised = bar(kind, has_standbys=outcome.has_standbys)
                yield f"| {_label(kind, group)} | {name} | {len(group)} | {gaps_ms} | {settled} | {promised} |"


def _settled(kind: Strike, group: Sequence[Silence]) -> str:
    """When all was well again; without Redis nobody knows."""
    if kind is Strike.LOSS:
        return "-"
    return f"{percentile([found.settled_s for found in group], 50):.1f}"


def _label(kind: Strike, group: Sequence[Silence]) -> str:
    own_ms = percentile([found.own_ms for found in group], 50)
    return f"{kind}, beyond its own {own_ms:,.0f} ms" if own_ms else str(kind)


def _gaps(gaps_ms: Sequence[float]) -> str:
    return " | ".join(f"{percentile(gaps_ms, percent):,.0f}" for percent in (50, 99, 100))
