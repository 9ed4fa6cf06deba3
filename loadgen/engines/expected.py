"""The published numbers: checksums of the data, and totals of every workload at every mark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from loadgen.engines import reference
from loadgen.engines.variants import CHECKED_ROWS, VARIANTS
from loadgen.engines.workloads import MARKS, QUESTIONS, WINDOWS, EngineWorkload, workload

PATH = Path(__file__).with_name("expected.json")


@cache
def published() -> dict[str, Any]:
    """All of expected.json."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def totals(asked: EngineWorkload) -> Sequence[int]:
    """Matches of the first probes up to each of MARKS; counted now if the window isn't published."""
    found: Sequence[int] | None = published()["totals"].get(key(asked))
    return reference.totals(asked) if found is None else found


def key(asked: EngineWorkload) -> str:
    """The key of a workload's totals, for example "q1-taxi-1000"."""
    return f"{asked.name}-{asked.window}"


def write(
    windows: Sequence[int],
    say: Callable[[str], None],
    *,
    questions: Sequence[str] = tuple(QUESTIONS),
    variants: Sequence[str] = tuple(VARIANTS),
    probes: int = MARKS[-1],
    path: Path = PATH,
) -> None:
    """Recount the totals of these windows, questions and variants, up to `probes` probes; all other totals stay."""
    kept = json.loads(path.read_text(encoding="utf-8"))["totals"] if path.exists() else {}
    data = {
        "sha256": {name: {str(rows): v.sha256(rows) for rows in CHECKED_ROWS} for name, v in VARIANTS.items()},
        "sha256 of c and k": {
            name: {str(rows): v.sha256_further(rows) for rows in CHECKED_ROWS} for name, v in VARIANTS.items()
        },
    }
    for asked in _all(windows, questions, variants):
        kept[key(asked)] = reference.totals(asked, probes)
        say(f"{key(asked)}: {kept[key(asked)][-1]:,} of {probes:,} probes")
        path.write_text(
            _laid_out(
                data, {key(w): kept[key(w)] for w in _all(WINDOWS, tuple(QUESTIONS), tuple(VARIANTS)) if key(w) in kept}
            )
        )


def _all(windows: Sequence[int], questions: Sequence[str], variants: Sequence[str]) -> Iterator[EngineWorkload]:
    for window in windows:
        for question in questions:
            if window in QUESTIONS[question].windows or window not in WINDOWS:
                yield from (workload(question, variant, window) for variant in variants)


def _laid_out(data: dict[str, dict[str, dict[str, str]]], counted: dict[str, list[int]]) -> str:
    """JSON with one line per workload, so that a changed number changes one line."""
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in counted.items())
    sums = "".join(
        f'  "{of}": {json.dumps(by_variant, indent=2).replace(chr(10), chr(10) + "  ")},\n'
        for of, by_variant in data.items()
    )
    return f'{{\n  "marks": {json.dumps(MARKS)},\n{sums}  "totals": {{\n{lines}\n  }}\n}}\n'
