"""How a changed query fills its windows (rule P12): apart from what reads it, so that the command line starts fast."""

from __future__ import annotations

import enum


class Backfill(enum.StrEnum):
    """How far back a new generation reads its inputs again, to fill its windows.

    WINDOW: as far as its windows reach, where the inputs still hold it; NONE: not at all; EARLIEST: all that is there
    """

    WINDOW = "window"
    NONE = "none"
    EARLIEST = "earliest"
