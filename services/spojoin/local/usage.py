"""What processes have used so far, if the system reports it (Linux)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """Processor time, and the most memory held."""

    cpu_s: float
    peak_rss_bytes: int


def usage_of(pid: int) -> Usage | None:
    """A process's usage; None if it is gone or the system doesn't report it."""
    try:
        own, _ = _seconds(pid)
        status = (_folder(pid) / "status").read_text()
    except OSError:
        return None
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return Usage(own, int(peaks[0]) * 1024 if peaks else 0)


def family_cpu_s(pid: int) -> float | None:
    """Processor time of a process and of all its descendants, including those that have ended.

    None if it is gone or the system doesn't report it.
    """
    try:
        found = sum(_seconds(pid))
        children = [
            int(child)
            for task in (_folder(pid) / "task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return None
    return found + sum(family_cpu_s(child) or 0.0 for child in children)


def _folder(pid: int) -> Path:
    return Path("/proc") / str(pid)


def _seconds(pid: int) -> tuple[float, float]:
    """Processor time of a process, and of its children that have ended."""
    # The command name may hold blanks and brackets: fields are counted after its last bracket.
    fields = (_folder(pid) / "stat").read_text().rpartition(")")[2].split()
    own, of_children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    tick_hz = os.sysconf("SC_CLK_TCK")
    return own / tick_hz, of_children / tick_hz
