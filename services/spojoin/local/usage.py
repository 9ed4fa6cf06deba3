"""What processes have used so far, where the system reports it (Linux)."""

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
    folder = Path("/proc") / str(pid)
    try:
        # The command name may hold blanks and brackets: fields are counted behind its last bracket.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        status = (folder / "status").read_text()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(peaks[0]) * 1024 if peaks else 0)
