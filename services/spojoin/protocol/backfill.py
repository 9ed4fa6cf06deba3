"""How a changed query fills its windows (rule P12); a separate module, so that the command line starts fast."""

from __future__ import annotations

import enum


class Backfill(enum.StrEnum):
    """How far back a new generation reads its inputs again, to fill its windows.

    WINDOW: as far as its windows reach, if the inputs still hold the rows
    NONE: not at all
    EARLIEST: all rows that the inputs hold
    """

    WINDOW = "window"
    NONE = "none"
    EARLIEST = "earliest"
