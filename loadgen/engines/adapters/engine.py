"""The interface of engines: a Python class, or a program that reads its workload from files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from loadgen.engines.workloads import MARKS, EngineWorkload


class PythonEngine(ABC):
    """An engine that runs in Python, made for one workload. A refusal is an exception with the engine's own words."""

    def __init__(self, workload: EngineWorkload) -> None:
        self.workload = workload

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def fill(self, first: int, last: int) -> None:
        """Store the rows [first, last), which aren't probes."""

    @abstractmethod
    def probe(self, first: int, last: int) -> int:
        """Store the rows [first, last), each after it has searched its window; returns the number of all matches."""


def pieces(first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """[first, last) cut into pieces of at most this number of rows."""
    for begin in range(first, last, size):
        yield begin, min(begin + size, last)


def write_job(workload: EngineWorkload, folder: Path) -> Path:
    """Write job.properties and the rows that it names, unless these exist; returns its path."""
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
