"""How a changed query fills its windows (rule P12); a module of its own, so that the command line starts fast."""

from __future__ import annotations

import enum


class Backfill(enum.StrEnum):
    """How far back a new generation reads its inputs again, to fill its windows.

    WINDOW: as far as its windows reach, where the inputs still hold it; NONE: not at all; EARLIEST: all that they hold
    """

    WINDOW = "window"
    NONE = "none"
    EARLIEST = "earliest"
