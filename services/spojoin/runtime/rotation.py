"""Secrets that rotate: a service ends when a file of theirs changes, and is started again with what is new.

So it doesn't matter how a secret comes in, as a file or as a variable, which only a new process sees.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

LOOK_S = 2.0
#: How the names begin that Kubernetes puts beside a mounted Secret's files to replace them all at once.
_OURS_NOT = ".."

_log = structlog.get_logger(__name__)


def end_when_changed(folders: Sequence[Path], look_s: float = LOOK_S, end: Callable[[], None] | None = None) -> None:
    """From now on ask this process to end once a file of one of the folders is another; none: never.

    end: in place of SIGTERM
    """
    if folders:
        known = contents(folders)
        threading.Thread(target=_watch, args=(folders, known, look_s, end or _ask), daemon=True).start()


def contents(folders: Sequence[Path]) -> Mapping[Path, bytes]:
    """What the files hold, by a digest."""
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    return {
        file: hashlib.sha256(file.read_bytes()).digest()
        for file in files
        if file.is_file() and not file.name.startswith(_OURS_NOT)
    }


def _watch(folders: Sequence[Path], known: Mapping[Path, bytes], look_s: float, end: Callable[[], None]) -> None:
    pause = threading.Event()
    while True:
        pause.wait(look_s)
        try:
            found = contents(folders)
        except OSError:  # a file was replaced meanwhile
            continue
        if found != known:
            changed = sorted(str(file) for file in known.keys() | found.keys() if known.get(file) != found.get(file))
            _log.info("secrets have changed: ending, to be started again with them", files=changed)
            end()
            return


def _ask() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
