"""The lines and columns of a statement's characters in its file, and mistakes that edits correct."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import yaml

from spojoin.errors import Place, QueryError

_CHARACTER = re.compile("''|.", re.DOTALL)
#: Gives the place of a character of a statement; characters are counted from 0.
PlaceAt = Callable[[int], Place]


def places_in(text: str) -> PlaceAt:
    """The places of a text's own characters; characters after its end have the place of the last one."""
    return _among(_places(text, range(len(text))))


def places_within(node: yaml.ScalarNode, text: str) -> PlaceAt:
    """The places in `text` of the characters of a YAML scalar's value."""
    if node.style == "|":
        return _among(_of_literal(node, text))
    # Folding and quoting change only white space: the k-th other character is the k-th of the source.
    solid = _places(text, [at for at in _unwrapped(node, text) if not text[at].isspace()])
    counts = itertools.accumulate((not c.isspace() for c in node.value), initial=0)
    return _among([solid[min(count, len(solid) - 1)] for count in counts])


def _among(places: Sequence[Place]) -> PlaceAt:
    return lambda character: places[min(character, len(places) - 1)] if places else Place(1, 1)


def _places(text: str, characters: Sequence[int]) -> list[Place]:
    """The places of some characters; their indices must ascend."""
    found, line, start, seen = [], 1, 0, 0
    for at in characters:
        breaks = text.count("\n", seen, at)
        if breaks:
            line, start = line + breaks, text.rindex("\n", 0, at) + 1
        found.append(Place(line, at - start + 1))
        seen = at
    return found


def _of_literal(node: yaml.ScalarNode, text: str) -> list[Place]:
    """The places of a `|` block's value, which has the lines of its source without their indentation."""
    source = text.split("\n")
    found: list[Place] = []
    first = int(node.start_mark.line) + 1  # counted from 0: the first line is the one after `|`
    for line, written in enumerate(node.value.split("\n"), first):
        indent = max(len(source[line]) - len(written), 0) if line < len(source) else 0
        found += [Place(line + 1, indent + column + 1) for column in range(len(written) + 1)]
    return found


def _unwrapped(node: yaml.ScalarNode, text: str) -> list[int]:
    """The characters of a scalar's source, without its quotes, or without its `>` line except the line break."""
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if node.style == ">":
        return list(range(text.index("\n", start), end))
    if node.style == "'":
        return _once(text, start + 1, end - 1)
    return list(range(start + 1, end - 1)) if node.style else list(range(start, end))


def _once(text: str, start: int, end: int) -> list[int]:
    """The characters from `start` to `end`, but only the second of each doubled quote."""
    return [start + match.end() - 1 for match in _CHARACTER.finditer(text[start:end])]


#: A replacement: the first character, the end, and the new text.
Edit = tuple[int, int, str]


class Correctable(QueryError):
    """A mistake that edits can correct; `correcting` turns it into a QueryError with the corrected statement."""

    def __init__(self, message: str, line: int | None, edits: Sequence[Edit]) -> None:
        super().__init__(message, line)
        self.message = message
        self.edits = edits


@contextmanager
def correcting(text: str) -> Iterator[None]:
    """Turn each `Correctable` in the block into a QueryError with the corrected statement; text: the statement."""
    try:
        yield
    except Correctable as error:
        raise QueryError(error.message, error.line, instead=_edited(text, error.edits)) from None


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text
