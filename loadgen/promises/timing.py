"""Times that can be compared: alternatives are run in turn, so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_seconds(alternatives: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest of `repeats` runs of each alternative, in seconds; a first run, which may compile, isn't timed."""
    for run in alternatives.values():
        run()
    best = dict.fromkeys(alternatives, float("inf"))
    for _ in range(repeats):
        for name, run in alternatives.items():
            best[name] = min(best[name], seconds(run))
    return best


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, in seconds."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
