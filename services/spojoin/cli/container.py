"""What a process does first in a container: signals of process 1, and a read-only root file system."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

#: The status that a shell reports for a process ended by SIGTERM.
STATUS_TERMINATED = 143


def prepare(environment: Mapping[str, str]) -> None:
    """Obey SIGTERM from the start, and use the kernels that were compiled when the image was built."""
    if os.getpid() == 1:  # the system never ends process 1 by a signal that it doesn't handle
        signal.signal(signal.SIGTERM, _end)
    kernels, cache = environment.get("SPOJOIN_KERNELS"), environment.get("NUMBA_CACHE_DIR")
    if kernels and cache:
        link_all(Path(kernels), Path(cache))


def link_all(source: Path, target: Path) -> None:
    """Make `target` a copy of the folder `source` in which every file is a link.

    Numba uses only a cache that it can write to. Locks aren't linked: each container has its own.
    """
    for folder, _, names in os.walk(source):
        copied = target / Path(folder).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in (each for each in names if not each.endswith(".lock")):
            link = copied / name
            if not link.is_symlink() and not link.exists():
                link.symlink_to(Path(folder) / name)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(STATUS_TERMINATED)
