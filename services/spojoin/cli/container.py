"""What a process does first where it runs as a container's first process, with a root file system that is read-only."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

#: What a shell reports of a process that SIGTERM ended.
STATUS_TERMINATED = 143


def prepare(environment: Mapping[str, str]) -> None:
    """Obey SIGTERM from the start, and find the kernels that were compiled when the image was built."""
    if os.getpid() == 1:  # the system ends a first process by no signal that it doesn't handle
        signal.signal(signal.SIGTERM, _end)
    kernels, cache = environment.get("SPOJOIN_KERNELS"), environment.get("NUMBA_CACHE_DIR")
    if kernels and cache:
        link_all(Path(kernels), Path(cache))


def link_all(source: Path, target: Path) -> None:
    """Make `target` a copy of the folder `source` in which every file is a link.

    Numba uses a cache only where it can write to it.
    """
    for folder, _, names in os.walk(source):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            link = place / name
            if not link.is_symlink() and not link.exists():
                link.symlink_to(Path(folder) / name)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(STATUS_TERMINATED)
