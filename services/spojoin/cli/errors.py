"""How the command ends: with one sentence where something is wrong; with a traceback only on request."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, TypeGuard

from spojoin.cli.extras import COMMAND, SPOJOIN, Installation
from spojoin.errors import SpoJoinError, ToldWrongly

#: Rows that can't be used as they are: too many were refused, or a column's type was told wrongly.
STATUS_ROWS = 1
#: Wrong settings, a wrong query, a failed start: what the user can correct.
STATUS_MISTAKE = 2
#: A shell reports a process that a signal ended by this plus the signal's number: 130 for Ctrl-C.
STATUS_SIGNAL = 128
STATUS_INTERRUPTED = STATUS_SIGNAL + signal.SIGINT

_WORDS_OF_THE_SYSTEM = (errno.ELOOP, errno.ENAMETOOLONG, errno.EIO, errno.EFBIG, errno.EBUSY, errno.ENXIO, errno.EPERM)


@contextmanager
def one_sentence(
    *, is_debug: bool, installation: Installation = SPOJOIN, plain: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turns this package's errors, a full disk, a missing file or permission into one line on stderr and a status.

    The error's notes, which say what became of the outputs, follow on separate lines. Where the reader of standard
    output has ended, as `head` does, the command ends without a word, with the status of a program that SIGPIPE ends.
    installation: whose command it is; plain: further errors, whose own text is the sentence
    """
    known: tuple[type[Exception], ...] = (SpoJoinError, OSError, ModuleNotFoundError, *plain)
    try:
        yield
    except known as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.__stdout__):
            _write_no_more(sys.__stdout__)
            traceback.clear_frames(error.__traceback__)
            raise SystemExit(STATUS_SIGNAL + signal.SIGPIPE) from None
        sentence = str(error) if isinstance(error, plain) else describe(error, installation)
        if is_debug or sentence is None:
            raise
        _say(installation.program, sentence, *notes_of(error))
        traceback.clear_frames(error.__traceback__)  # closes what is read, so that no thread reads at the end
        raise SystemExit(STATUS_ROWS if isinstance(error, ToldWrongly) else STATUS_MISTAKE) from error
    except KeyboardInterrupt as error:
        number = _signal_of(error)
        if notes := notes_of(error):
            _say(installation.program, f"ended by {number.name} before the end", *notes)
        traceback.clear_frames(error.__traceback__)
        raise SystemExit(STATUS_SIGNAL + number) from None


def _is_unread(stream: TextIO | None) -> TypeGuard[TextIO]:
    """Whether a stream is a pipe whose reader has ended."""
    if stream is None:
        return False
    poll = select.poll()
    poll.register(stream.fileno(), 0)  # errors are reported without being asked for
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _write_no_more(stream: TextIO) -> None:
    """What is still to be flushed at the end of the process goes nowhere, so that it doesn't fail there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def notes_of(error: BaseException) -> list[str]:
    """The notes that were added to an error."""
    return list(getattr(error, "__notes__", ()))


def _say(program: str, *sentences: str) -> None:
    for sentence in sentences:
        print(f"{program}: {sentence}", file=sys.stderr)


def _signal_of(error: KeyboardInterrupt) -> signal.Signals:
    """The signal that the error names, else that of Ctrl-C."""
    names = [each.name for each in signal.Signals]
    return signal.Signals[error.args[0]] if error.args and error.args[0] in names else signal.SIGINT


def describe(error: Exception, installation: Installation = SPOJOIN) -> str | None:
    """The sentence for an error that the user can correct; None for a bug in this program."""
    if isinstance(error, SpoJoinError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return installation.missing(error, COMMAND.get())
    if isinstance(error, OSError):
        return _system_error(error)
    return None


def _system_error(error: OSError) -> str | None:
    where = error.filename or "the disk"
    sentences = {
        errno.ENOSPC: f"the disk is full: make room for {where} and start again",
        errno.EDQUOT: f"the disk quota is used up: make room for {where} and start again",
        errno.EACCES: f"{where}: permission denied; choose another place or change its permissions",
        errno.EROFS: f"{where}: the file system is read-only; choose another place",
        errno.ENOENT: f"{where}: no such file or folder",
        errno.EISDIR: f"{where} is a folder; name a file",
        errno.ENOTDIR: f"{where}: part of this path is a file, not a folder",
        errno.EEXIST: f"{where} already exists and isn't a folder; choose another place",
        errno.EPIPE: "the program that reads the output has ended",
        errno.EADDRINUSE: "the port is in use: stop the program that holds it or choose another port",
    }
    if error.errno in _WORDS_OF_THE_SYSTEM and error.filename:
        return f"{where}: {os.strerror(error.errno).lower()}; choose another place or name"
    return sentences.get(error.errno or 0)
