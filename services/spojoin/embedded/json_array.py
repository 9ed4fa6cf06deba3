"""A file that holds one JSON array, read as JSON lines: one element a line, in constant memory."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spojoin.errors import BadData
from spojoin.kernels.compile import inlined, kernel

_BLANK = b" \t\r\n\xef\xbb\xbf"  # with the byte order mark that some editors write
_QUOTE, _BACKSLASH, _COMMA, _NEWLINE, _SPACE = 34, 92, 44, 10, 32
_LINE_ENDS, _OPENING, _CLOSING = (10, 13), (91, 123), (93, 125)

#: Slots of the kernel's state: open brackets, whether inside a string, whether the array is over.
_DEPTH, _STRING, _ENDED = range(3)
#: Inside a string, and behind a backslash in it.
_PLAIN, _ESCAPING = 1, 2


class ByteSource(Protocol):
    """Where bytes are read from."""

    def read(self, nbytes: int, /) -> bytes:
        """At most `nbytes` bytes; none at the end."""


class ArrayOrLines:
    """A JSON file's bytes: as they are, or with the elements of its one array each on a line of its own.

    Raises BadData where the array doesn't end, or anything follows it.
    """

    def __init__(self, source: ByteSource, path: Path) -> None:
        self._source = source
        self._path = path
        self._is_array: bool | None = None
        self._state = np.zeros(3, np.int64)

    def read(self, nbytes: int, /) -> bytes:
        """About `nbytes` bytes; none at the end."""
        piece = self._source.read(nbytes)
        if self._is_array is None and piece.strip(_BLANK):
            self._is_array = piece.lstrip(_BLANK).startswith(b"[")
            piece = piece.lstrip(_BLANK) if self._is_array else piece
        elif self._is_array is None:
            piece = b" " * len(piece)  # part of a byte order mark alone would look like a line
        return self._as_lines(piece) if self._is_array else piece

    def _as_lines(self, piece: bytes) -> bytes:
        text = np.frombuffer(piece, np.uint8).copy()
        if not _split(text, self._state):
            raise BadData(f"{self._path}: there is more text behind the end of its JSON array: a file holds one array")
        if not piece and not self._state[_ENDED]:
            raise BadData(
                f"{self._path}: its JSON array has no end: the file is truncated, or a bracket or quote is left open"
            )
        return text.tobytes()


@inlined
def _within(string: int, c: int) -> int:
    """The state behind a character of a string."""
    if string == _ESCAPING:
        return _PLAIN
    if c == _BACKSLASH:
        return _ESCAPING
    return 0 if c == _QUOTE else _PLAIN


@kernel
def _split(text: NDArray[np.uint8], state: NDArray[np.int64]) -> bool:
    """Put line breaks between elements, and blanks for the array's brackets and the elements' own line breaks.

    text, state: uint8 (n,) and int64 (3,), both changed. False where anything but blanks follows the array.
    """
    depth, string, ended = state[_DEPTH], state[_STRING], state[_ENDED]
    for at in range(len(text)):
        c = text[at]
        if string:
            string = _within(string, c)
        elif ended:
            if c > _SPACE:
                return False
        elif c == _QUOTE:
            string = _PLAIN
        elif c in _LINE_ENDS:
            text[at] = _SPACE
        elif c in _OPENING:
            text[at] = c if depth else _SPACE
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            ended = depth == 0
            text[at] = _SPACE if ended else c
        elif c == _COMMA and depth == 1:
            text[at] = _NEWLINE
    state[_DEPTH], state[_STRING], state[_ENDED] = depth, string, ended
    return True
