"""A process of services: its start, exit status, signals, memory, and rotating secrets."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pyarrow as pa
import structlog

from spojoin.blocked_imports import keep_out
from spojoin.errors import BadData, ConfigurationError, Fenced, Stop
from spojoin.telemetry import log_lines

_log = structlog.get_logger(__name__)

EXIT_DONE, EXIT_CONFIGURATION, EXIT_STOPPED, EXIT_FENCED = 0, 2, 3, 4


def main(name: str, start: Callable[[], int]) -> int:
    """Run a process of this name to its end; return its exit status, see `run`."""
    keep_out("pandas")  # as in the command
    log_lines.begin_process(name)
    try:
        return start()
    except ConfigurationError as error:
        return _refused(error)


def leave(status: int) -> NoReturn:
    """End the process at once: everything is closed, and unloading modules would cost half a second of CPU time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def exit_status(serve: Callable[[], None]) -> int:
    """Serve to the end; return the exit status, see `run`."""
    try:
        serve()
    except ConfigurationError as error:
        return _refused(error)
    except Fenced as error:
        _log.error("fenced", reason=str(error))
        return EXIT_FENCED
    except (BadData, Stop) as error:
        _log.error("stopped", reason=str(error))
        return EXIT_STOPPED
    _log.info("ended")
    return EXIT_DONE


def _refused(error: ConfigurationError) -> int:
    _log.error("refused", reason=str(error))
    return EXIT_CONFIGURATION


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Let SIGTERM and SIGINT stop the service after the current record; a second signal ends it at once."""
    stop = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: A parameter of glibc's mallopt.
_M_ARENA_MAX = -8

#: The number of the C heap's arenas. The default is eight a core, and each thread of the Kafka client keeps its arena.
ARENAS_MAX = 2


@contextmanager
def loaded_objects_spared() -> Iterator[None]:
    """Exclude all present objects from garbage collection within the block.

    A full collection visits all tracked objects. Modules and their types are some hundred thousand objects that live as
    long as the process, and thousands of incoming records trigger one collection after another. Garbage is collected
    first, since excluded objects are only freed when their last reference goes.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def limit_arenas() -> None:
    """Let threads share a few arenas of the C heap, if it is glibc's; call this before threads start."""
    _call("mallopt", _M_ARENA_MAX, ARENAS_MAX)


def give_back() -> None:
    """Return free memory to the system, such as after a replay."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    _call("malloc_trim", 0)


def _call(name: str, *given: int) -> None:
    """Call a function of glibc; other C libraries lack it."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*given)


LOOK_S = 2.0

#: The prefix of the names that Kubernetes adds to a mounted Secret's files to replace them all at once.
_OURS_NOT = ".."


def end_when_changed(folders: Sequence[Path], look_s: float = LOOK_S, end: Callable[[], None] | None = None) -> None:
    """From now on, send this process SIGTERM once a file of one of the folders changes; without folders, never.

    end: called in place of SIGTERM
    """
    if folders:
        known = contents(folders)
        threading.Thread(target=_watch, args=(folders, known, look_s, end or _ask), daemon=True).start()


def contents(folders: Sequence[Path]) -> Mapping[Path, bytes]:
    """A digest of each file's content."""
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
        except OSError:  # the file was replaced meanwhile
            continue
        if found != known:
            changed = sorted(str(file) for file in known.keys() | found.keys() if known.get(file) != found.get(file))
            _log.info("secrets have changed: ending, to be started again with them", files=changed)
            end()
            return


def _ask() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
