"""A JSON number as it is written."""

from __future__ import annotations


class JsonNumber(str):
    """A number's literal: as text, since no value may pass through a double."""

    __slots__ = ()
