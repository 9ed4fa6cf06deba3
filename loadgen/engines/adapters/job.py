"""A workload as files that an engine in any language can read: README.md, "An engine"."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loadgen.engines.workloads import MARKS, EngineWorkload


def write_job(workload: EngineWorkload, folder: Path) -> Path:
    """Write job.properties and the rows that it names; its path. Rows that are there already are kept."""
    columns, answer = workload.question.columns, workload.answer
    rows = folder / f"{workload.variant.name}-{workload.fill}-{''.join(columns)}.rows"
    if not rows.exists():
        np.stack([workload.columns[name] for name in columns], axis=1).astype("<i8").tofile(rows)
    said: dict[str, object] = {
        "question": workload.question.name,
        "variant": workload.variant.name,
        "window": workload.window,
        "fill": workload.fill,
        "marks": " ".join(map(str, MARKS)),
        "columns": " ".join(columns),
        "rows": rows,
        "gathered": answer.gathered.name.lower(),
        "counted": answer.counted.name.lower(),
        "below": answer.below,
        "narrow": str(workload.question.is_narrow).lower(),
        "key": workload.question.key,
        "overlap": "; ".join(workload.overlap),
        "sql": workload.sql(),
        "probings": len(workload.probings),
    }
    for number, probing in enumerate(workload.probings):
        of = f"probing.{number}"
        said |= {f"{of}.probes": _parity(probing.probes), f"{of}.stored": _parity(probing.stored)}
        said |= {f"{of}.where": " and ".join(probing.conditions), f"{of}.times": probing.times}
    path = folder / f"{workload.name}-{workload.window}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in said.items()), encoding="utf-8")
    return path


def _parity(parity: int | None) -> str:
    return "all" if parity is None else str(parity)
